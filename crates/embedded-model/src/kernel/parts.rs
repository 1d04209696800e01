//! Work on all threads of the pool, each on a part of the result that is its own.

use std::marker::PhantomData;

use super::pool::pool;
use super::tile::TALL;

/// An address that may go to other threads.
struct Address<T>(*mut T);

// SAFETY: what is done with it on other threads is argued where it is used.
unsafe impl<T: Send> Sync for Address<T> {}

impl<T> Address<T> {
    fn get(&self) -> *mut T {
        self.0
    }
}

/// `work` for each `size` items, and what is left of them, with the number of the part.
pub(in super::super) fn each<T: Send>(items: &mut [T], size: usize, work: impl Fn(usize, &mut [T]) + Sync) {
    let count = items.len();
    if size == 0 || count <= size {
        if count > 0 {
            work(0, items);
        }
        return;
    }
    let address = Address(items.as_mut_ptr());
    pool().run(count.div_ceil(size), |parts| {
        for part in parts {
            let start = part * size;
            // SAFETY: within `items`, which is borrowed until all are done; the pool gives out each number once, so no two parts
            // overlap.
            let items = unsafe { std::slice::from_raw_parts_mut(address.get().add(start), size.min(count - start)) };
            work(part, items);
        }
    });
}

/// A column of a table, 16 values wide.
pub(super) struct Column<'a> {
    start: *mut f32,
    rows: usize,
    stride: usize,
    table: PhantomData<&'a mut [f32]>,
}

impl Column<'_> {
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    #[inline]
    pub(super) fn row(&mut self, row: usize) -> &mut [f32; TALL] {
        assert!(row < self.rows);
        // SAFETY: the row is within the table, and of this column there is only one.
        unsafe { &mut *self.start.add(row * self.stride).cast::<[f32; TALL]>() }
    }
}

/// `work` for each column of a table whose rows have `width` values, with its number.
pub(super) fn each_column(table: &mut [f32], width: usize, work: impl Fn(usize, Column<'_>) + Sync) {
    assert!(width > 0 && width.is_multiple_of(TALL) && table.len().is_multiple_of(width));
    let rows = table.len() / width;
    let address = Address(table.as_mut_ptr());
    pool().run(width / TALL, |columns| {
        for column in columns {
            // SAFETY: 16 · column + 16 ≤ width, so each row's part is within the table, which is borrowed until all are done; the
            // pool gives out each number once.
            let start = unsafe { address.get().add(TALL * column) };
            work(column, Column { start, rows, stride: width, table: PhantomData });
        }
    });
}
