//! Commands that set up the function of Linux that is most similar to a scheme. The commands of
//! Linux do not translate a plan exactly: Linux uses its own policies. The plan's predictions hold
//! for Bimetal only.

use bimetal_core::scheme::{CacheMode, LinuxCounterpart};
use bimetal_core::settings::Settings;

use crate::grid::Candidate;

/// Returns the commands, with SSD and HDD for the paths of the drives; no commands if Linux has no
/// similar function.
pub fn commands(candidate: &Candidate) -> Vec<String> {
    let given = candidate.settings.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    let settings = Settings::new(candidate.scheme.name, candidate.scheme.parameters, given);
    let counterpart = settings.ok().and_then(|settings| (candidate.scheme.linux_counterpart)(&settings));
    match counterpart {
        Some(LinuxCounterpart::DmCache(mode)) => lvm("cache", &format!(" --cachemode {}", word(mode))),
        Some(LinuxCounterpart::DmWritecache) => lvm("writecache", ""),
        Some(LinuxCounterpart::Bcache(mode)) => bcache(word(mode)),
        None => Vec::new(),
    }
}

/// Returns the name of the mode in lvmcache and bcache.
fn word(mode: CacheMode) -> &'static str {
    match mode {
        CacheMode::WriteThrough => "writethrough",
        CacheMode::WriteBack => "writeback",
    }
}

fn lvm(kind: &str, options: &str) -> Vec<String> {
    vec![
        "vgcreate hybrid HDD SSD".to_owned(),
        "lvcreate -n data -l 100%PVS hybrid HDD".to_owned(),
        "lvcreate -n fast -l 100%PVS hybrid SSD".to_owned(),
        format!("lvconvert --yes --type {kind} --cachevol fast{options} hybrid/data"),
    ]
}

fn bcache(mode: &str) -> Vec<String> {
    vec!["make-bcache -C SSD -B HDD".to_owned(), format!("echo {mode} > /sys/block/bcache0/bcache/cache_mode")]
}

#[cfg(test)]
mod tests {
    use super::*;
    use bimetal_core::schemes;

    #[test]
    fn the_cache_mode_follows_the_settings_of_the_scheme() {
        let commands = |scheme: &str, settings: &[(&str, &str)]| {
            let settings = settings.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
            let scheme = schemes::find(scheme).unwrap();
            commands(&Candidate { index: 0, variant: 0, scheme, drives: Vec::new(), settings, cost_usd: 0.0 })
        };
        let mode = |settings: &[(&str, &str)]| commands("smart-response", settings).pop().unwrap();
        assert!(mode(&[]).contains("--type cache --cachevol fast --cachemode writethrough"));
        assert!(mode(&[("mode", "maximized")]).contains("--cachemode writeback"));
        assert!(commands("bcache", &[])[1].starts_with("echo writeback >"));
        assert!(commands("griffin", &[]).is_empty());
    }
}
