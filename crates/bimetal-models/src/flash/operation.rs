//! Operations that a flash translation layer requests from the dies, and their causes.

/// Reason for which a page was programmed or read, or a block erased.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cause {
    /// Request of the host.
    Host,
    /// Garbage collection.
    Collection,
    /// Merge of blocks: merges of log blocks with data blocks, folds of chains, and blocks that are
    /// read and written again.
    Merge,
    /// Wear levelling.
    WearLevelling,
    /// Translation tables of the FTL itself.
    Translation,
}

impl Cause {
    /// Causes in the order of statistics, with their names in the statistics.
    pub(crate) const ALL: [(Cause, &'static str); 5] = [
        (Cause::Host, "host"),
        (Cause::Collection, "gc"),
        (Cause::Merge, "merge"),
        (Cause::WearLevelling, "wear_levelling"),
        (Cause::Translation, "translation"),
    ];
}

/// Kind of an operation of a die.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NandKind {
    /// Senses rows, one after another, and sends units to the controller.
    Read,
    /// Receives pages of one row and programs them with one command.
    Program,
    /// Erases a block in every plane.
    Erase,
    /// With serial timing: overhead of a read before its first page is read.
    ReadSetup,
    /// With serial timing: overhead of a write before its first page is written.
    WriteSetup,
}

/// Operation of a die.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NandOp {
    /// Kind of the operation.
    pub(crate) kind: NandKind,
    /// Cause of the operation.
    pub(crate) cause: Cause,
    /// Number of the die.
    pub(crate) die: u32,
    /// Number of commands of a read, each of which senses one row; 1 for other operations.
    pub(crate) commands: u32,
    /// Number of pages sensed or programmed, or of blocks erased.
    pub(crate) pages: u32,
    /// Number of units that cross the channel.
    pub(crate) units: u32,
    /// For a program: number of units of the host, which leave the write buffer with the program.
    pub(crate) host_units: u32,
    /// Number of the block of the FTL.
    pub(crate) block: u32,
    /// For a program: number of units, from the block's start on, that the cells hold after the
    /// program.
    pub(crate) programmed: u32,
    /// For a program: set if the cells are programmed with one bit, however many bits they can
    /// hold.
    pub(crate) slc: bool,
    /// For a program: erases of the block before the program, modulo 256. The FTL learns of a
    /// program when the die has done it, and may have erased and opened the block again before it
    /// learns of the program.
    pub(crate) age: u8,
}

impl NandOp {
    /// Creates an operation of one command on die 0 that moves no units.
    pub(crate) fn new(kind: NandKind, cause: Cause) -> Self {
        let (die, commands, pages, units, host_units, block, programmed) = (0, 1, 0, 0, 0, 0, 0);
        Self { kind, cause, die, commands, pages, units, host_units, block, programmed, slc: false, age: 0 }
    }
}
