//! Files that callers may name.

use std::{
    io,
    path::{Path, PathBuf},
};

/// The file that `path` names, if it lies under `folder`, links followed; `None` if it lies
/// elsewhere. A path that is not absolute begins at the folder.
pub fn confine(folder: &Path, path: &Path) -> io::Result<Option<PathBuf>> {
    let folder = folder.canonicalize()?;
    let file = folder.join(path).canonicalize()?;
    Ok(file.starts_with(&folder).then_some(file))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn only_files_under_the_folder_are_found() {
        let root = std::env::temp_dir().join(format!("confine-{}", std::process::id()));
        let folder = root.join("keys");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("one"), "1").unwrap();
        fs::write(root.join("two"), "2").unwrap();
        std::os::unix::fs::symlink(root.join("two"), folder.join("link")).unwrap();

        let inside = confine(&folder, Path::new("one")).unwrap();
        assert_eq!(inside, Some(folder.canonicalize().unwrap().join("one")));
        assert_eq!(confine(&folder, &folder.join("one")).unwrap(), inside);
        assert_eq!(confine(&folder, Path::new("../two")).unwrap(), None);
        assert_eq!(confine(&folder, &root.join("two")).unwrap(), None);
        assert_eq!(confine(&folder, Path::new("link")).unwrap(), None, "links are followed");
        assert!(confine(&folder, Path::new("none")).is_err());
        fs::remove_dir_all(root).unwrap();
    }
}
