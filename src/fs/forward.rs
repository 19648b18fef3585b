//! Methods of file systems and files that only pass a call on, for those that stand around others.

/// Defines the named methods of [`Fs`](super::Fs), each as that of the field.
macro_rules! forward_fs {
    ($field:ident: $($method:ident),+) => { $(forward_fs!(@$method $field);)+ };
    (@open_read $field:ident) => {
        fn open_read(&self, path: &str) -> std::io::Result<std::sync::Arc<dyn $crate::fs::File>> {
            self.$field.open_read(path)
        }
    };
    (@open_uncached $field:ident) => {
        fn open_uncached(&self, path: &str) -> std::io::Result<std::sync::Arc<dyn $crate::fs::File>> {
            self.$field.open_uncached(path)
        }
    };
    (@list $field:ident) => {
        fn list(&self, dir: &str) -> std::io::Result<Vec<String>> {
            self.$field.list(dir)
        }
    };
    (@create_dir $field:ident) => {
        fn create_dir(&self, dir: &str) -> std::io::Result<()> {
            self.$field.create_dir(dir)
        }
    };
    (@rename $field:ident) => {
        fn rename(&self, from: &str, to: &str) -> std::io::Result<()> {
            self.$field.rename(from, to)
        }
    };
    (@link $field:ident) => {
        fn link(&self, from: &str, to: &str) -> std::io::Result<()> {
            self.$field.link(from, to)
        }
    };
    (@remove $field:ident) => {
        fn remove(&self, path: &str) -> std::io::Result<()> {
            self.$field.remove(path)
        }
    };
    (@sync_dir $field:ident) => {
        fn sync_dir(&self, dir: &str) -> std::io::Result<()> {
            self.$field.sync_dir(dir)
        }

        fn sync_dir_on(&self, place: $crate::fs::DiskPlace, dir: &str) -> std::io::Result<()> {
            self.$field.sync_dir_on(place, dir)
        }
    };
    (@lock $field:ident) => {
        fn lock(&self, path: &str) -> std::io::Result<Box<dyn $crate::fs::Lock>> {
            self.$field.lock(path)
        }
    };
    (@space $field:ident) => {
        fn space(&self) -> std::io::Result<$crate::fs::Space> {
            self.$field.space()
        }

        fn has_two_disks(&self) -> bool {
            self.$field.has_two_disks()
        }

        fn place_of(&self, path: &str) -> std::io::Result<$crate::fs::DiskPlace> {
            self.$field.place_of(path)
        }

        fn space_on(&self, place: $crate::fs::DiskPlace) -> std::io::Result<$crate::fs::Space> {
            self.$field.space_on(place)
        }
    };
}

/// Defines the named methods of [`File`](super::File), each as that of the field.
macro_rules! forward_file {
    ($field:ident: $($method:ident),+) => { $(forward_file!(@$method $field);)+ };
    (@len $field:ident) => {
        fn len(&self) -> std::io::Result<u64> {
            self.$field.len()
        }
    };
    (@read_exact_at $field:ident) => {
        fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> std::io::Result<()> {
            self.$field.read_exact_at(buf, offset)
        }
    };
    (@write_all_at $field:ident) => {
        fn write_all_at(&self, bytes: &[u8], offset: u64) -> std::io::Result<()> {
            self.$field.write_all_at(bytes, offset)
        }
    };
    (@write_zeros $field:ident) => {
        fn write_zeros(&self, offset: u64, len: u64) -> std::io::Result<()> {
            self.$field.write_zeros(offset, len)
        }
    };
    (@reserve $field:ident) => {
        fn reserve(&self, offset: u64, len: u64) -> std::io::Result<bool> {
            self.$field.reserve(offset, len)
        }
    };
    (@truncate $field:ident) => {
        fn truncate(&self, len: u64) -> std::io::Result<()> {
            self.$field.truncate(len)
        }
    };
    (@punch $field:ident) => {
        fn punch(&self, offset: u64, len: u64) -> std::io::Result<()> {
            self.$field.punch(offset, len)
        }
    };
    (@next_hole $field:ident) => {
        fn next_hole(
            &self,
            range: std::ops::Range<u64>,
        ) -> std::io::Result<Option<std::ops::Range<u64>>> {
            self.$field.next_hole(range)
        }
    };
    (@elsewhere $field:ident) => {
        fn elsewhere(&self) -> Option<&dyn $crate::fs::BytesElsewhere> {
            self.$field.elsewhere()
        }
    };
    (@lock_shared $field:ident) => {
        fn lock_shared(&self) -> std::io::Result<()> {
            self.$field.lock_shared()
        }
    };
    (@has_shared_lock $field:ident) => {
        fn has_shared_lock(&self) -> std::io::Result<bool> {
            self.$field.has_shared_lock()
        }
    };
    (@usage $field:ident) => {
        fn usage(&self) -> std::io::Result<$crate::fs::FileUsage> {
            self.$field.usage()
        }
    };
    (@start_writeback $field:ident) => {
        fn start_writeback(&self, offset: u64, len: u64) -> std::io::Result<()> {
            self.$field.start_writeback(offset, len)
        }
    };
    (@sync_data $field:ident) => {
        fn sync_data(&self) -> std::io::Result<()> {
            self.$field.sync_data()
        }
    };
    (@evict $field:ident) => {
        fn evict(&self) -> std::io::Result<()> {
            self.$field.evict()
        }
    };
}

pub(crate) use {forward_file, forward_fs};
