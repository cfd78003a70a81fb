//! A limit on how many of something each key has at once, so that no key takes the share of others.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A number of permits for each key, and for all keys together. Clones share them.
#[derive(Debug)]
pub struct KeyedLimit<K> {
    shared: Arc<Shared<K>>,
}

#[derive(Debug)]
struct Shared<K> {
    max_per_key: usize,
    max_total: usize,
    /// Only keys that hold a permit are here.
    held: Mutex<HashMap<K, usize>>,
}

/// One permit of a key, given back when this is dropped.
#[derive(Debug)]
pub struct KeyedPermit<K: Eq + Hash> {
    shared: Arc<Shared<K>>,
    key: K,
}

/// The reason why a key gets no permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitReached {
    OfKey,
    OfAll,
}

impl<K> Clone for KeyedLimit<K> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<K: Clone + Eq + Hash> KeyedLimit<K> {
    pub fn new(max_per_key: usize, max_total: usize) -> Self {
        Self {
            shared: Arc::new(Shared { max_per_key, max_total, held: Mutex::default() }),
        }
    }

    pub fn max_per_key(&self) -> usize {
        self.shared.max_per_key
    }

    pub fn max_total(&self) -> usize {
        self.shared.max_total
    }

    /// Returns how many permits all keys hold.
    pub fn in_use(&self) -> usize {
        self.shared.lock().values().sum()
    }

    /// Takes a permit for the key. The limit of the key is checked before that of all.
    pub fn try_acquire(&self, key: K) -> Result<KeyedPermit<K>, LimitReached> {
        let mut held = self.shared.lock();
        if held.get(&key).copied().unwrap_or(0) >= self.shared.max_per_key {
            return Err(LimitReached::OfKey);
        }
        if held.values().sum::<usize>() >= self.shared.max_total {
            return Err(LimitReached::OfAll);
        }
        *held.entry(key.clone()).or_default() += 1;
        Ok(KeyedPermit { shared: Arc::clone(&self.shared), key })
    }
}

impl<K: Eq + Hash> KeyedPermit<K> {
    pub fn key(&self) -> &K {
        &self.key
    }
}

impl<K> Shared<K> {
    fn lock(&self) -> MutexGuard<'_, HashMap<K, usize>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Eq + Hash> Drop for KeyedPermit<K> {
    fn drop(&mut self) {
        let mut held = self.shared.lock();
        if let Some(count) = held.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                held.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_has_its_own_permits_and_gets_them_back() {
        let limit = KeyedLimit::new(2, usize::MAX);
        let first = limit.try_acquire("a").unwrap();
        let _second = limit.try_acquire("a").unwrap();
        assert_eq!(limit.try_acquire("a").unwrap_err(), LimitReached::OfKey);
        let other = limit.try_acquire("b").unwrap();
        assert_eq!(limit.in_use(), 3);
        drop(first);
        assert_eq!(*limit.try_acquire("a").unwrap().key(), "a");
        drop(other);
        assert_eq!(limit.shared.lock().len(), 1, "a key without a permit is forgotten");
    }

    #[test]
    fn all_keys_together_have_a_limit() {
        let limit = KeyedLimit::new(2, 3);
        let held = [limit.try_acquire("a"), limit.try_acquire("a"), limit.try_acquire("b")]
            .map(Result::unwrap);
        assert_eq!(limit.try_acquire("b").unwrap_err(), LimitReached::OfAll);
        assert_eq!(limit.try_acquire("c").unwrap_err(), LimitReached::OfAll);
        assert_eq!(limit.try_acquire("a").unwrap_err(), LimitReached::OfKey);
        drop(held);
        assert!(limit.try_acquire("c").is_ok());
        assert!(limit.shared.lock().is_empty(), "a refused key is not kept");
    }
}
