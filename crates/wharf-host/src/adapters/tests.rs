//! Manifests, modes and options, lookup, import (rule 8.7).
