#!/usr/bin/env bash
# installed.sh BUILD SOURCE: installs into a prefix, and uses what is there: program, pages, completions, library.
set -eu
build=$1 source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix
say() { echo "ok: $*"; }

cmake --install "$build" --prefix "$prefix" >/dev/null
cd "$work"
trireme=$prefix/bin/trireme
"$trireme" --version | grep -Eq '^trireme [0-9.]+ \(commit [0-9a-f]+\+?|unknown'
"$trireme" plan --model llama-3.1-8b --cluster dgx-h100x1 --global-batch 64 -o plan.json >/dev/null
"$trireme" estimate plan.json --json | grep -q '"trireme.estimate/1"'
say "the installed program plans and estimates"

# One page a command, each as --help has it.
commands=$("$trireme" manual --shell fish | sed -n "s/^complete -c trireme -n '__trireme_at ' -f -a '\(.*\)'$/\1/p")
[ "$(wc -w <<<"$commands")" -ge 18 ]
for command in $commands; do
  page=$prefix/share/man/man1/trireme-$command.1
  [ -s "$page" ] || { echo "no page of $command"; exit 1; }
  if command -v man >/dev/null; then
    troubles=$(man --warnings -E UTF-8 -l "$page" 2>&1 >/dev/null) || true
    [ -z "$troubles" ] || { echo "$page: $troubles"; exit 1; }
  fi
done
say "$(wc -w <<<"$commands") man pages"

bash -c '
  source "$1"/share/bash-completion/completions/trireme
  ask() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _trireme; echo "${COMPREPLY[*]}"; }
  [ "$(ask trireme pl)" = plan ] && [ "$(ask trireme plan --model no-such)" = "" ] &&
    [[ " $(ask trireme plan --model gpt) " == *" gpt2 "* ]] && [[ $(ask trireme topo sh) == show ]] &&
    [[ $(ask trireme estimate --recompute f) == full ]] && [[ $(ask trireme estimate --micro) == --micro-batch ]]
' bash "$prefix"
say "bash completes"
if command -v zsh >/dev/null; then
  zsh -fc '
    compadd() { shift; proposed=("$@"); }; _files() { :; }
    words=(trireme plan --recompute f); CURRENT=4
    source "$1"/share/zsh/site-functions/_trireme
    [[ "$proposed" == "none selective full" ]] || exit 1
    words=(trireme ""); CURRENT=2; _trireme
    [[ " $proposed " == *" plan "* ]]
  ' zsh "$prefix"
  say "zsh completes"
fi
if command -v fish >/dev/null; then
  export HOME=$work XDG_CONFIG_HOME=$work
  proposed=$(fish -c "source $prefix/share/fish/vendor_completions.d/trireme.fish; complete -C 'trireme topo sh'" 2>&1)
  [[ $proposed == show* ]] || { echo "fish: $proposed"; exit 1; }
  proposed=$(fish -c "source $prefix/share/fish/vendor_completions.d/trireme.fish; complete -C 'trireme plan --recompute f'" 2>&1)
  [[ $proposed == full* ]] || { echo "fish: $proposed"; exit 1; }
  say "fish completes"
fi

cmake -S "$source/api/example" -B example -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_BUILD_TYPE=Release >/dev/null
cmake --build example >/dev/null
./example/which_layout | tee answer
[ "$(grep -c 'GPUs: ' answer)" = 3 ]
[ "$(./example/which_layout no-such-model 2>&1 >/dev/null | wc -l)" = 1 ]
say "the example project builds against the installed library and runs"

module=$(find "$prefix" -type d -path '*dist-packages/trireme' | head -1)
if [ -n "$module" ]; then
  PYTHONPATH=$(dirname "$module") /usr/bin/python3 "$source/python/tests/module_test.py"
  say "the Python module passes its tests against the installed files"
fi
