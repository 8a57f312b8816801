# shellcheck shell=bash disable=SC2034,SC2154
# The code blocks of docs/guide/strongswan.md. Sourced, with $here set to this folder.
# block LANGUAGE: the page's only code block in this language.
block() { awk -v begin="\`\`\`$1" '$0 == "```" { inside = 0 } inside; $0 == begin && !inside { inside = 1 }' "$here/../../docs/guide/strongswan.md"; }
# peers_block: the page's site.conf with the ends swapped, as the peer has it, but without ESN,
# which strongSwan's ESP in userspace lacks.
peers_block() {
  block swanctl | sed -e 's/192.0.2.1$/B/; s/192.0.2.2$/192.0.2.1/; s/= B$/= 192.0.2.2/; s/10.1.0.0/X/; s/10.2.0.0/10.1.0.0/; s/= X/= 10.2.0.0/
    s/a.example/X/; s/b.example/a.example/; s/= X/= b.example/; s/start_action.*trap /start_action = none /; s/-esn-noesn//g'
}
