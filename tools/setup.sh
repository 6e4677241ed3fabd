# Sourced by tools/run and tools/test: configures a preset, installing what the distribution lacks only when
# configuring fails. Everything it says goes to stderr.

packages_run=(g++ cmake ninja-build libfmt-dev nlohmann-json3-dev libboost-dev libboost-graph-dev libeigen3-dev libcli11-dev
              libpugixml-dev libtomlplusplus-dev libyaml-cpp-dev)
packages_test=(libgtest-dev libbenchmark-dev)
packages_package=(python3-dev python3-numpy)  # of the Python module

missing_packages() {
  local package
  for package in "$@"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q '^install ok installed' || echo "$package"
  done
}

# Installs the missing ones of the named packages, or says exactly which they are and stops.
install_packages() {
  if ! command -v apt-get >/dev/null; then
    echo "trireme: needs cmake 3.25, ninja, g++ 12, fmt 9, nlohmann-json 3.11, Boost 1.74, Eigen 3.4, CLI11 2.1 (and for tests GoogleTest 1.12); install them with your package manager" >&2
    exit 2
  fi
  local missing as_root=()
  mapfile -t missing < <(missing_packages "$@")
  [ ${#missing[@]} -gt 0 ] || return 0
  if [ "$(id -u)" -ne 0 ]; then
    as_root=(sudo -n)
    if ! sudo -n true 2>/dev/null; then
      echo "trireme: missing packages; install them with: sudo apt-get install -y ${missing[*]}" >&2
      exit 2
    fi
  fi
  echo "trireme: installing ${missing[*]}" >&2
  { "${as_root[@]}" apt-get update && DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -y --no-install-recommends "${missing[@]}"; } >&2 || {
    echo "trireme: could not install; install them with: sudo apt-get install -y ${missing[*]}" >&2
    exit 2
  }
}

# configure PRESET PACKAGE...: leaves build/PRESET configured.
configure() {
  local preset=$1
  shift
  [ -f "build/$preset/build.ninja" ] && return 0
  local log
  log=$(mktemp)
  if command -v cmake >/dev/null && command -v ninja >/dev/null && cmake --preset "$preset" >"$log" 2>&1; then
    grep 'CUDA runtime' "$log" >&2
  else
    install_packages "$@"
    cmake --preset "$preset" >&2 || exit 2
  fi
  rm -f "$log"
}
