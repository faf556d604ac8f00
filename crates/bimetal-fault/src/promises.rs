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
         or a table of places from an earlier time. Two cases take writes back: both copies of the newest page of a \
         journal or log, damaged after a crash within 0.5 s of the last flush, and all pages of a journal or log that \
         together come back from an earlier time"
            .to_owned(),
    );
    promises.push(of_home(scheme).to_owned());
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

/// Returns the sentence about wrong content of a home drive, which has no checksums.
fn of_home(scheme: &SchemeInfo) -> &'static str {
    let has = |wanted: Holds| scheme.members.iter().any(|(_, holds)| *holds == wanted);
    if has(Holds::Copy) {
        "home has no checksums: wrong content of a drive is read; a scrub compares the copies"
    } else if has(Holds::Cache) || has(Holds::Log) {
        "home has no checksums, and content off home has: wrong content of a home drive is read; a scrub compares home \
         with clean copies, and mends it from them"
    } else {
        "home has no checksums: wrong content of a drive is read, and no scrub finds it"
    }
}
