# Completion of convoy's command line for fish.
function __convoy_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    # It fails where a file is expected.
    command $words[1] complete -- $words[2..-1] "$current" 2>/dev/null
    or __fish_complete_path "$current"
end
complete -c convoy -f -a '(__convoy_complete)'
