//! Tool calls that users allowed for good, out of the maps.

use std::collections::BTreeMap;

use graph::UserId;

use super::Tables;
use crate::{NewPermission, PERMISSIONS_MAX, PermissionRow, Result};

pub(super) type Permissions = BTreeMap<u64, (UserId, PermissionRow)>;

impl Tables {
    pub(super) fn permissions(&self, user: &UserId) -> Vec<PermissionRow> {
        self.permissions.values().filter(|(of, _)| of == user).map(|(_, row)| row.clone()).collect()
    }

    pub(super) fn keep_permission(&mut self, new: NewPermission) -> Result<u64> {
        let NewPermission { user, grant, definition, created_ms } = new;
        if let Some(thread) = grant.thread() {
            self.known_thread(thread)?;
        }
        if let Some((number, (_, row))) = self.permissions.iter_mut().find(|(_, (of, row))| *of == user && row.grant == grant) {
            if row.definition != definition {
                (row.definition, row.created_ms) = (definition, created_ms);
            }
            return Ok(*number);
        }
        self.permissions_made += 1;
        let permission = self.permissions_made;
        self.permissions.insert(permission, (user.clone(), PermissionRow { permission, grant, definition, created_ms }));
        let of_user = self.permissions.iter().rev().filter(|(_, (of, _))| *of == user);
        let too_many: Vec<u64> = of_user.skip(PERMISSIONS_MAX).map(|(number, _)| *number).collect();
        too_many.iter().for_each(|number| drop(self.permissions.remove(number)));
        Ok(permission)
    }

    pub(super) fn revoke_permission(&mut self, user: &UserId, permission: u64) -> bool {
        let is_theirs = self.permissions.get(&permission).is_some_and(|(of, _)| of == user);
        is_theirs && self.permissions.remove(&permission).is_some()
    }
}
