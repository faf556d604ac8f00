//! Promises that the fault tester checks of a scheme, in words.

use bimetal_core::scheme::{Holds, SchemeInfo};

/// Returns one line for each promise that is checked under `scheme`.
pub fn promises(scheme: &SchemeInfo) -> Vec<String> {
    let off_home = scheme.members.iter().any(|(_, holds)| matches!(holds, Holds::Cache | Holds::Log));
    let mut promises = vec!["what was flushed or forced survives any power cut, at any operation".to_owned()];
    promises.push(if off_home {
        "a write that was not flushed is there whole or not at all in each block off its home; in place, old or new in \
         each sector of 512 bytes"
            .to_owned()
    } else {
        "a write that was not flushed is old or new in each sector of 512 bytes, as on a bare drive".to_owned()
    });
    promises.push("what was read after a power cut stays until it is written, through further cuts".to_owned());
    promises.push("a recovery that is cut short, any number of times, ends the same".to_owned());
    promises.push("a read that cannot be right is an error, and only where a drive has failed".to_owned());
    promises.push(
        "a page of metadata that is damaged at rest costs nothing; several cost errors or a refusal, as do both copies of a state \
         or of places that come back from an earlier time together"
            .to_owned(),
    );
    if scheme.members.iter().any(|(_, holds)| *holds == Holds::Copy) {
        promises.push(
            "a member that is lost, or fails, costs nothing while another is there: all reads as before".to_owned(),
        );
    }
    if off_home {
        let home_is_ssd = scheme.members.iter().any(|(role, holds)| role.name() == "ssd" && *holds == Holds::Home);
        let (lost, loss) = if home_is_ssd { ("HDD", scheme.hdd_loss) } else { ("SSD", scheme.ssd_loss) };
        promises.push(format!(
            "the {lost} that refuses writes and still reads costs nothing, and service goes on without it"
        ));
        promises.push(format!("the {lost} that does not come back takes along: {loss}; all else reads as before"));
    }
    promises
}
