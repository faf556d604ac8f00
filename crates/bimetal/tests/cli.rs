//! The contract of the command line: help and messages, word for word.

#[test]
fn help_and_messages_are_what_they_were() {
    trycmd::TestCases::new().case("tests/cmd/*.trycmd");
}

#[test]
fn the_commands_of_readme_and_manual_do_what_they_say() {
    trycmd::TestCases::new().case("../../README.md").case("../../docs/*.md");
}
