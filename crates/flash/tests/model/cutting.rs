//! A tier that saves images of its file and its disk before and after each call of the store.

use std::sync::{Arc, Mutex, MutexGuard};

use arena::MapFile;
use base::clock::UnixMillis;
use gannet_flash::{Flash, SimDisk, SimHand};
use segment::{FlashAddress, Tier, TierFind, TierFound, TierItem, TierRead, TierShow, Visit};

/// What a killed process leaves behind: its memory file and its disk.
type Left = (Arc<MapFile>, (SimDisk, SimHand));

#[derive(Debug)]
pub struct Cutting {
    flash: Arc<Flash>,
    file: Option<Arc<MapFile>>,
    hand: SimHand,
    /// The images saved so far, while saving is on.
    taken: Mutex<Option<Vec<Left>>>,
}

impl Cutting {
    pub fn new(flash: Arc<Flash>, file: Option<Arc<MapFile>>, hand: &SimHand) -> Self {
        Self { flash, file, hand: hand.clone(), taken: Mutex::new(None) }
    }

    fn taken(&self) -> MutexGuard<'_, Option<Vec<Left>>> {
        self.taken.lock().expect("nobody panics")
    }

    /// Starts to save images.
    pub fn begin(&self) {
        *self.taken() = Some(Vec::new());
    }

    /// Stops saving, and returns the images.
    pub fn end(&self) -> Vec<Left> {
        self.taken().take().unwrap_or_default()
    }

    fn cut(&self) {
        if let (Some(taken), Some(file)) = (&mut *self.taken(), &self.file) {
            let image = Arc::new(file.image().expect("an image"));
            taken.push((image, self.hand.copy(taken.len() as u64)));
        }
    }

    fn cut_around<T>(&self, act: impl FnOnce(&Flash) -> T) -> T {
        self.cut();
        let done = act(&self.flash);
        self.cut();
        done
    }
}

impl Tier for Cutting {
    fn offer(&self, item: &TierItem<'_>) -> Option<FlashAddress> {
        self.cut_around(|flash| flash.offer(item))
    }

    fn release(&self, at: FlashAddress) {
        self.flash.release(at);
    }

    fn ask(&self, read: TierRead) -> Result<(), TierRead> {
        self.flash.ask(read)
    }

    fn collect(&self, handle: usize) -> Option<TierRead> {
        self.flash.collect(handle)
    }

    fn found(&self) -> TierFound {
        self.flash.found()
    }

    fn may_name(&self, at: FlashAddress) -> bool {
        self.flash.may_name(at)
    }

    fn name(&self, at: FlashAddress) {
        self.cut_around(|flash| flash.name(at));
    }

    fn kill(&self, at: FlashAddress, tag: u16) {
        self.cut_around(|flash| flash.kill(at, tag));
    }

    fn change(&self, hash: u64) {
        self.flash.change(hash);
    }

    fn is_gone(&self, hash: u64, at: FlashAddress, tag: u16) -> bool {
        self.flash.is_gone(hash, at, tag)
    }

    fn is_found(&self) -> bool {
        self.flash.is_found()
    }

    fn find(&self, show: &mut TierShow<'_>) -> TierFind {
        Tier::find(&*self.flash, show)
    }

    fn sync(&self) {
        self.flash.sync();
    }

    fn reclaim(&self, now: UnixMillis, visit: &mut Visit<'_>) -> bool {
        self.flash.reclaim(now, visit)
    }
}
