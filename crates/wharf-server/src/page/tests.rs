//! Tests of the page's files: all are served, small, and refer to each other rightly.

use std::collections::BTreeSet;
use std::path::Path;

use super::*;

fn page_folder() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/page"))
}

/// Returns the names of all files below a folder, relative to the page's.
fn list_files(folder: &Path, names: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            list_files(&path, names);
        } else {
            names.insert(path.strip_prefix(page_folder()).unwrap().display().to_string());
        }
    }
}

#[test]
fn every_file_of_the_folder_is_served() {
    let mut names = BTreeSet::new();
    list_files(page_folder(), &mut names);
    // These two describe the libraries to people; browsers have no use for them.
    names.retain(|name| !name.ends_with("README.md") && !name.ends_with("checksums.txt"));
    assert_eq!(names, PAGE_FILES.iter().map(|(name, _)| (*name).to_owned()).collect());
}

#[test]
fn vendored_libraries_are_unchanged() {
    let folder = page_folder().join("vendor");
    let mut listed = BTreeSet::new();
    for line in std::fs::read_to_string(folder.join("checksums.txt")).unwrap().lines() {
        let (sum, name) = line.split_once("  ").unwrap();
        let content = std::fs::read(folder.join(name)).unwrap();
        let digest = ring::digest::digest(&ring::digest::SHA256, &content);
        let digest: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(digest, sum, "{name}");
        listed.insert(format!("vendor/{name}"));
    }
    let vendored = PAGE_FILES
        .iter()
        .map(|(name, _)| (*name).to_owned())
        .filter(|name| name.starts_with("vendor/"));
    assert_eq!(listed, vendored.collect());
}

#[test]
fn every_import_and_reference_leads_to_a_file() {
    let known: BTreeSet<&str> = PAGE_FILES.iter().map(|(name, _)| *name).collect();
    for (name, content) in PAGE_FILES.iter().filter(|(name, _)| name.starts_with("js/")) {
        let text = std::str::from_utf8(content).unwrap();
        let folder = Path::new(name).parent().unwrap();
        let imports = text
            .lines()
            .filter(|line| line.starts_with("import "))
            .filter_map(|line| line.split('"').nth(1));
        for target in
            imports.chain(text.split("import(\"").skip(1).filter_map(|rest| rest.split('"').next()))
        {
            if !target.starts_with('.') {
                assert!(["preact", "preact/hooks"].contains(&target), "{name} imports {target}");
                continue;
            }
            let mut path = folder.to_path_buf();
            for word in target.split('/') {
                match word {
                    "." => {}
                    ".." => assert!(path.pop(), "{name} imports {target}"),
                    word => path.push(word),
                }
            }
            assert!(known.contains(path.to_str().unwrap()), "{name} imports {target}");
        }
    }
    let index = String::from_utf8_lossy(&PAGE_BUNDLE.closed_index.plain).into_owned();
    let prefix = format!("page/{}/", PAGE_BUNDLE.version);
    let referenced: Vec<_> = index
        .split(prefix.as_str())
        .skip(1)
        .map(|rest| rest.split('"').next().unwrap())
        .collect();
    assert!(referenced.len() >= 5, "{referenced:?}");
    assert!(referenced.iter().all(|name| known.contains(name)), "{referenced:?}");
}

#[test]
fn own_scripts_make_no_markup_from_text() {
    for (name, content) in PAGE_FILES
        .iter()
        .filter(|(name, _)| name.starts_with("js/") || *name == "sw.js")
    {
        let text = std::str::from_utf8(content).unwrap();
        for banned in [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "new Function",
            "dangerously",
        ] {
            assert!(!text.contains(banned), "{name} has {banned}");
        }
        assert!(
            !text.contains("://") || !text.contains("fetch(\"http"),
            "{name} calls an absolute address"
        );
    }
}

/// The contract says of what type everything is that the host sends; an agent's own JSON is
/// `unknown` until it has been looked at.
#[test]
fn own_scripts_have_no_type_any() {
    for (name, content) in PAGE_FILES.iter().filter(|(name, _)| name.starts_with("js/")) {
        let text = std::str::from_utf8(content).unwrap();
        for banned in ["{any", "<any", ": any", "| any", ", any>", "=> any"] {
            assert!(
                !text.contains(banned),
                "{name} has {banned:?}; page_tests/contract.d.ts has the types of the contract"
            );
        }
    }
}

#[test]
fn first_load_is_small() {
    let is_lazy = |name: &str| {
        ["vendor/highlight.js", "sw.js"].contains(&name)
            || ["vendor/languages/", "vendor/licences/", "icons/"]
                .iter()
                .any(|folder| name.starts_with(folder))
    };
    let files = PAGE_BUNDLE.files.iter().filter(|file| !is_lazy(file.name));
    let total: usize =
        files.map(|file| file.compressed.as_ref().unwrap_or(&file.plain).len()).sum();
    assert!(total <= 120 * 1024, "the first load takes {total} bytes");
    // A much smaller figure would mean that files were forgotten.
    assert!(total >= 20 * 1024, "the first load takes {total} bytes");
}

#[test]
fn browser_with_the_file_is_told_that_it_is_unchanged() {
    let file = PAGE_BUNDLE.find("app.css").unwrap();
    let mut request = HeaderMap::new();
    assert_eq!(file.respond(&request, CACHE_AND_ASK).status(), StatusCode::OK);
    assert!(
        !file
            .respond(&request, CACHE_AND_ASK)
            .headers()
            .contains_key(header::CONTENT_ENCODING)
    );
    request.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("br, gzip;q=0.8"));
    assert_eq!(file.respond(&request, CACHE_AND_ASK).headers()[header::CONTENT_ENCODING], "gzip");
    request.insert(header::IF_NONE_MATCH, file.entity_tag.clone());
    assert_eq!(file.respond(&request, CACHE_AND_ASK).status(), StatusCode::NOT_MODIFIED);
}

#[test]
fn policy_names_the_import_map_by_its_hash() {
    let policy = PAGE_BUNDLE.content_policy.to_str().unwrap();
    assert!(
        policy.contains("script-src 'self' 'sha256-") && !policy.contains("unsafe"),
        "{policy}"
    );
}
