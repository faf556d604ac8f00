//! What a translation layer asks of the dies, and what for.

/// What a page was programmed, read or a block erased for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cause {
    /// A request of the host.
    Host,
    /// Garbage collection.
    Collection,
    /// Log and data blocks that become one: merges of log blocks, folds of chains, blocks read and written again.
    Merge,
    /// Wear levelling.
    WearLevelling,
    /// The translation layer's own tables.
    Translation,
}

impl Cause {
    /// Every cause, in the order of statistics, with its name there.
    pub(crate) const ALL: [(Cause, &'static str); 5] = [
        (Cause::Host, "host"),
        (Cause::Collection, "gc"),
        (Cause::Merge, "merge"),
        (Cause::WearLevelling, "wear_levelling"),
        (Cause::Translation, "translation"),
    ];
}

/// What a die does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NandKind {
    /// Senses rows, one after another, and sends units to the controller.
    Read,
    /// Receives pages of one row and programs them with one command.
    Program,
    /// Erases a block in every plane.
    Erase,
    /// With serial timing: what a read takes before it is processed.
    ReadSetup,
    /// With serial timing: what a write takes before it is processed.
    WriteSetup,
}

/// One operation of a die.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NandOp {
    /// What it does.
    pub(crate) kind: NandKind,
    /// What for.
    pub(crate) cause: Cause,
    /// Which die.
    pub(crate) die: u32,
    /// Commands of a read, each senses one row; 1 for the rest.
    pub(crate) commands: u32,
    /// Pages sensed or programmed; blocks erased.
    pub(crate) pages: u32,
    /// Units that cross the channel.
    pub(crate) units: u32,
    /// Of a program: units of the host in it, which leave the write buffer with it.
    pub(crate) host_units: u32,
    /// The block of the translation layer.
    pub(crate) block: u32,
    /// Of a program: units of the block, from its start on, that are in the cells with it.
    pub(crate) programmed: u32,
    /// Of a program: the cells hold one bit, whatever they could.
    pub(crate) slc: bool,
    /// Of a program: the erases of the block before it, modulo 256. The layer hears of a program when the die has done it, and
    /// may have erased and opened the block again by then.
    pub(crate) age: u8,
}

impl NandOp {
    /// One command of die 0 that moves nothing.
    pub(crate) fn new(kind: NandKind, cause: Cause) -> Self {
        let (die, commands, pages, units, host_units, block, programmed) = (0, 1, 0, 0, 0, 0, 0);
        Self { kind, cause, die, commands, pages, units, host_units, block, programmed, slc: false, age: 0 }
    }
}
