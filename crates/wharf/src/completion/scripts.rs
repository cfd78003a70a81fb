//! The scripts that make a shell ask `wharf __complete`.

/// For bash 4 and newer. The line up to the cursor is passed, since bash splits words at `=` and
/// `:`.
pub(crate) const BASH: &str = r#"_wharf() {
    local line
    COMPREPLY=()
    while IFS= read -r line; do
        case $line in
            :files) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -f -- "$2"); return ;;
            :dirs) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -d -- "$2"); return ;;
        esac
        COMPREPLY+=("${line%%$'\t'*}")
    done < <("$1" __complete --line "${COMP_LINE:0:COMP_POINT}" 2>/dev/null)
    case ${COMPREPLY[0]} in
        *=) [ "${#COMPREPLY[@]}" -eq 1 ] && compopt -o nospace 2>/dev/null ;;
    esac
}
complete -o nosort -F _wharf wharf 2>/dev/null || complete -F _wharf wharf
"#;

pub(crate) const ZSH: &str = r#"#compdef wharf
_wharf() {
    local line
    local -a lines candidates
    lines=("${(@f)$("${words[1]}" __complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    case ${lines[1]} in
        :files) _files; return ;;
        :dirs) _files -/; return ;;
    esac
    for line in "${lines[@]}"; do
        [[ -n $line ]] && candidates+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
    done
    _describe -V wharf candidates
}
if [ "$funcstack[1]" = _wharf ]; then
    _wharf "$@"
else
    compdef _wharf wharf
fi
"#;

pub(crate) const FISH: &str = r#"function __wharf_complete
    set -l typed (commandline -opc)
    set -l current (commandline -ct)
    set -l lines ($typed[1] __complete -- $typed[2..-1] "$current" 2>/dev/null)
    switch "$lines[1]"
        case :files
            __fish_complete_path "$current"
        case :dirs
            __fish_complete_directories "$current"
        case '*'
            printf '%s\n' $lines
    end
end
complete -c wharf -f -k -a '(__wharf_complete)'
"#;
