//! What Linux itself has that is like a scheme: the commands that set it up. They are no translation: its policies are its
//! own, and what the plan predicts holds for Bimetal.

use crate::grid::Candidate;

/// The commands, with SSD and HDD for the paths of the drives; none where Linux has nothing like the scheme.
pub fn commands(candidate: &Candidate) -> Vec<String> {
    let value = |name: &str| {
        let given = candidate.settings.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
        let parameter = candidate.scheme.parameters.iter().find(|parameter| parameter.name == name);
        given.or(parameter.map(|parameter| parameter.default))
    };
    match candidate.scheme.name {
        "smq" | "hybrid-disk" => {
            lvm_cache(if value("mode") == Some("writethrough") { "writethrough" } else { "writeback" })
        }
        "smart-response" => lvm_cache(if value("mode") == Some("maximized") { "writeback" } else { "writethrough" }),
        "bcache" => bcache(value("mode").unwrap_or("writeback")),
        "writeboost" => lvm("writecache", ""),
        _ => Vec::new(),
    }
}

fn lvm_cache(mode: &str) -> Vec<String> {
    lvm("cache", &format!(" --cachemode {mode}"))
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
