//! Noticing that somebody changes something in a folder, at once where the system tells (Linux).
//!
//! Owns: being told. Leaves to others: looking what changed, and looking now and then where nobody
//! tells (`daemon::surroundings`).

use std::path::PathBuf;

/// A watch of folders. One that is absent, or replaced, is watched from the next [`Stir::arm`] on.
pub struct Stir {
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "nobody tells"))]
    folders: Vec<PathBuf>,
    #[cfg(target_os = "linux")]
    told: Option<linux::Told>,
}

impl Stir {
    /// Of these folders themselves, not of those in them.
    pub fn of(folders: Vec<PathBuf>) -> Self {
        Self {
            folders,
            #[cfg(target_os = "linux")]
            told: linux::Told::new(),
        }
    }

    /// Watches what is there now. To be called before each look, so that no change falls between
    /// the two.
    pub fn arm(&self) {
        #[cfg(target_os = "linux")]
        if let Some(told) = &self.told {
            self.folders.iter().for_each(|folder| told.watch(folder));
        }
    }

    /// Waits for a change, and a moment for those that come with it. For ever where nobody tells.
    pub async fn stirred(&self) {
        #[cfg(target_os = "linux")]
        if let Some(told) = &self.told {
            return told.next().await;
        }
        std::future::pending().await
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::mem::MaybeUninit;
    use std::os::fd::OwnedFd;
    use std::path::Path;
    use std::time::Duration;

    use rustix::fs::inotify::{CreateFlags, WatchFlags, add_watch, init};
    use tokio::io::unix::AsyncFd;

    /// Files are written aside, synced and renamed, several at a time.
    const MOMENT: Duration = Duration::from_millis(20);

    pub struct Told(AsyncFd<OwnedFd>);

    impl Told {
        /// `None` if the system gives no more of these: then nobody tells.
        #[expect(
            deprecated,
            reason = "sound for an OwnedFd, which nothing else closes; its successor is unsafe"
        )]
        pub fn new() -> Option<Self> {
            let fd = init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).ok()?;
            AsyncFd::new(fd).ok().map(Self)
        }

        /// Watching the same folder again changes nothing.
        pub fn watch(&self, folder: &Path) {
            let what = WatchFlags::ONLYDIR
                | WatchFlags::CREATE
                | WatchFlags::CLOSE_WRITE
                | WatchFlags::DELETE
                | WatchFlags::MOVED_FROM
                | WatchFlags::MOVED_TO
                | WatchFlags::DELETE_SELF
                | WatchFlags::MOVE_SELF;
            // Absent, or not ours to read: there is always the next look.
            let _absent = add_watch(self.0.get_ref(), folder, what);
        }

        pub async fn next(&self) {
            let Ok(mut ready) = self.0.readable().await else {
                return std::future::pending().await;
            };
            tokio::time::sleep(MOMENT).await;
            // What it was is found by looking; only the queue has to be empty for the next time.
            let mut events = [MaybeUninit::uninit(); 4096];
            while rustix::io::read(ready.get_inner(), &mut events)
                .is_ok_and(|(read, _)| !read.is_empty())
            {}
            ready.clear_ready();
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::fs;
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn a_change_is_noticed_and_a_look_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let (root, inner) = (dir.path().to_owned(), dir.path().join("trusted"));
        let stir = Stir::of(vec![root.clone(), inner.clone()]);
        let noticed = async || {
            let soon = timeout(Duration::from_secs(30), stir.stirred()).await;
            soon.expect("it is told");
            stir.arm();
        };
        stir.arm();
        fs::write(root.join("a.tmp"), "1").unwrap();
        noticed().await;
        fs::rename(root.join("a.tmp"), root.join("a")).unwrap();
        noticed().await;
        fs::create_dir(&inner).unwrap();
        noticed().await;
        fs::write(inner.join("b"), "1").unwrap();
        noticed().await;
        fs::remove_file(inner.join("b")).unwrap();
        noticed().await;
        // The folder is replaced: the new one is watched.
        fs::rename(&inner, root.join("aside")).unwrap();
        fs::create_dir(&inner).unwrap();
        noticed().await;
        fs::write(inner.join("c"), "1").unwrap();
        noticed().await;
        assert_eq!(fs::read(inner.join("c")).unwrap(), b"1");
        fs::read_dir(&inner).unwrap().for_each(drop);
        let told = timeout(Duration::from_millis(100), stir.stirred()).await;
        assert!(told.is_err(), "reading is no change");
    }
}
