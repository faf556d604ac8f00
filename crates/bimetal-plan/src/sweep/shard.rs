//! Shard: the part of a sweep's jobs that one of several processes runs.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

/// Variable with the number of shards if the scheduler does not give the number.
pub const SHARDS: &str = "BIMETAL_SHARDS";

/// Shard `index` of `count`; the first index is 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    /// Number of the shard, from 1.
    pub index: u64,
    /// Number of shards.
    pub count: u64,
}

impl Shard {
    /// The shard that contains all jobs.
    pub const ALL: Self = Self { index: 1, count: 1 };

    /// Returns the shard that the variables of a scheduler name: those of a Slurm array, or those
    /// of an Indexed Job of Kubernetes together with [`SHARDS`].
    ///
    /// # Errors
    /// No scheduler has set its variables, or a variable has no possible value.
    pub fn of_environment(variable: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let number = |name: &str| -> Result<Option<u64>, String> {
            let Some(text) = variable(name) else { return Ok(None) };
            text.trim().parse().map(Some).map_err(|_| format!("{name}={text}: expected a whole number"))
        };
        let missing =
            |name: &str, beside: &str| format!("{name} is not set beside {beside}: expected the number of shards");
        if let Some(task) = number("SLURM_ARRAY_TASK_ID")? {
            let count = number("SLURM_ARRAY_TASK_COUNT")?
                .ok_or_else(|| missing("SLURM_ARRAY_TASK_COUNT", "SLURM_ARRAY_TASK_ID"))?;
            // Tasks may begin with any number, and have a distance: --array=0-14:2.
            let least = number("SLURM_ARRAY_TASK_MIN")?.unwrap_or(1);
            let step = number("SLURM_ARRAY_TASK_STEP")?.unwrap_or(1).max(1);
            let places = task.checked_sub(least).filter(|distance| distance.is_multiple_of(step)).map(|far| far / step);
            let place = places.filter(|place| *place < count).ok_or_else(|| {
                format!(
                    "SLURM_ARRAY_TASK_ID={task}: expected one of {count} tasks from {least} in steps of {step}; leave no \
                     gaps in --array, or give --shard I/N"
                )
            })?;
            return Ok(Self { index: place + 1, count });
        }
        if let Some(index) = number("JOB_COMPLETION_INDEX")? {
            let count = number(SHARDS)?.ok_or_else(|| missing(SHARDS, "JOB_COMPLETION_INDEX"))?;
            if index >= count {
                return Err(format!("JOB_COMPLETION_INDEX={index}: expected less than {SHARDS}={count}"));
            }
            return Ok(Self { index: index + 1, count });
        }
        Err("--shard env: no scheduler has set its variables: expected SLURM_ARRAY_TASK_ID and SLURM_ARRAY_TASK_COUNT, or \
             JOB_COMPLETION_INDEX and BIMETAL_SHARDS; give --shard I/N otherwise"
            .to_owned())
    }

    /// Returns the jobs of this shard, out of jobs with the given weights. Shards are neighbouring
    /// jobs, so that a shard reads few traces, and all shards have about equal weights.
    pub fn part(self, weights: &[u64]) -> Range<usize> {
        let total: u128 = weights.iter().map(|weight| u128::from(*weight).max(1)).sum();
        // A job belongs to the shard in which its middle lies; twice the middle is a whole number.
        let shard_of = |twice_middle: u128| (twice_middle * u128::from(self.count) / (2 * total).max(1)) as u64;
        let mut before = 0;
        let mut part = None;
        for (at, weight) in weights.iter().enumerate() {
            let weight = u128::from(*weight).max(1);
            if shard_of(2 * before + weight) + 1 == self.index {
                let (start, _) = part.unwrap_or((at, at));
                part = Some((start, at + 1));
            }
            before += weight;
        }
        part.map_or(0..0, |(start, end)| start..end)
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers = text.split_once('/').and_then(|(index, count)| Some((index.parse().ok()?, count.parse().ok()?)));
        match numbers {
            Some((index, count)) if (1..=count).contains(&index) => Ok(Self { index, count }),
            _ => Err("expected I/N, shard I of N, like 1/8 to 8/8, or env".to_owned()),
        }
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(weights: &[u64], count: u64) -> Vec<Range<usize>> {
        (1..=count).map(|index| Shard { index, count }.part(weights)).collect()
    }

    #[test]
    fn shards_cover_each_job_once() {
        for weights in [vec![1; 10], vec![5, 0, 0, 100, 3, 3, 3], vec![7], vec![], (0..97).collect()] {
            for count in [1, 2, 3, 7, 40] {
                let covered: Vec<usize> = parts(&weights, count).into_iter().flatten().collect();
                assert_eq!(covered, (0..weights.len()).collect::<Vec<_>>(), "{weights:?} in {count}");
            }
        }
    }

    #[test]
    fn shards_have_about_equal_weights() {
        assert_eq!(parts(&[1; 10], 2), [0..5, 5..10]);
        assert_eq!(parts(&[10, 10, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1], 3), [0..1, 1..2, 2..12]);
        let weights: Vec<u64> = (0..1000).map(|at| at * 7919 % 101).collect();
        let total: u64 = weights.iter().sum();
        for part in parts(&weights, 8) {
            let weight: u64 = weights[part].iter().sum();
            assert!(weight.abs_diff(total / 8) < 300, "{weight} of {total}");
        }
    }

    #[test]
    fn environment_of_a_scheduler_names_the_shard() {
        let shard = |pairs: &[(&str, &str)]| {
            Shard::of_environment(|name| pairs.iter().find(|(key, _)| *key == name).map(|(_, text)| (*text).to_owned()))
        };
        let slurm = |id, min, step| {
            let pairs = [("SLURM_ARRAY_TASK_ID", id), ("SLURM_ARRAY_TASK_COUNT", "8"), ("SLURM_ARRAY_TASK_MIN", min)];
            shard(&[&pairs[..], &[("SLURM_ARRAY_TASK_STEP", step)]].concat())
        };
        assert_eq!(slurm("1", "1", "1"), Ok(Shard { index: 1, count: 8 }));
        assert_eq!(slurm("7", "0", "1"), Ok(Shard { index: 8, count: 8 }));
        assert_eq!(slurm("14", "0", "2"), Ok(Shard { index: 8, count: 8 }));
        assert!(slurm("9", "1", "1").is_err_and(|message| message.starts_with("SLURM_ARRAY_TASK_ID=9: expected")));
        assert!(slurm("x", "1", "1").is_err_and(|message| message == "SLURM_ARRAY_TASK_ID=x: expected a whole number"));
        let kubernetes = |index| shard(&[("JOB_COMPLETION_INDEX", index), ("BIMETAL_SHARDS", "4")]);
        assert_eq!(kubernetes("0"), Ok(Shard { index: 1, count: 4 }));
        assert!(kubernetes("4").is_err());
        assert!(
            shard(&[("JOB_COMPLETION_INDEX", "1")]).is_err_and(|message| message.contains("BIMETAL_SHARDS is not"))
        );
        assert!(shard(&[]).is_err());
    }

    #[test]
    fn shard_is_read_from_1_to_its_count() {
        assert_eq!("3/8".parse(), Ok(Shard { index: 3, count: 8 }));
        for text in ["0/8", "9/8", "3", "a/b", "1/0", "-1/2"] {
            assert!(text.parse::<Shard>().is_err(), "{text}");
        }
    }
}
