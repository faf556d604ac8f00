//! Promises that the fault tester checks of a scheme, in words.

use bimetal_core::scheme::{Holds, SchemeInfo};

/// Returns one line for each promise that is checked under `scheme`.
pub fn promises(scheme: &SchemeInfo) -> Vec<String> {
    let off_home = scheme.members.iter().any(|(_, holds)| matches!(holds, Holds::Cache | Holds::Log));
    let mut promises = vec!["flushed writes and FUA writes survive a power cut at any operation".to_owned()];
    promises.push(if off_home {
        "after a crash, a write that was not flushed has changed each block off home completely or not at all; at \
         home, \
         each sector of 512 bytes has the old or the new content"
            .to_owned()
    } else {
        "after a crash, a write that was not flushed leaves the old or the new content in each sector of 512 bytes, \
         as on a bare drive"
            .to_owned()
    });
    promises.push(
        "content that was read after a power cut stays until it is overwritten, through further power cuts".to_owned(),
    );
    promises.push("a recovery that is interrupted, any number of times, ends with the same result".to_owned());
    promises.push("a read that cannot return the right content fails, and only if a drive has failed".to_owned());
    promises.push(
        "one damaged page of metadata loses nothing; several cause errors or a refusal, as do both copies of a state \
         or a table of places from an earlier time. Only both copies of the newest page of a journal or log, damaged \
         after a crash within 0.5 s of the last flush, take back writes of this flush"
            .to_owned(),
    );
    if scheme.members.iter().any(|(_, holds)| *holds == Holds::Copy) {
        promises.push(
            "the loss or failure of a member loses nothing while another member is there: reads return what they \
             would have returned"
                .to_owned(),
        );
    }
    if off_home {
        let home_is_ssd = scheme.members.iter().any(|(role, holds)| role.name() == "ssd" && *holds == Holds::Home);
        let (lost, loss) = if home_is_ssd { ("HDD", scheme.hdd_loss) } else { ("SSD", scheme.ssd_loss) };
        promises.push(format!("the {lost} that becomes read-only loses nothing, and service goes on without it"));
        promises.push(format!(
            "a missing {lost} loses {}; all other reads return the same as before",
            scheme.loss_in_words(loss)
        ));
    }
    promises
}
