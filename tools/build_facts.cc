#include "tools/build_facts.h"

#include "tools/commit.h"

namespace trireme::tools {
namespace {

struct Reader {
  const char *name, *package;
  bool built;
};
constexpr Reader kReaders[] = {{"XML", "libpugixml-dev", TRIREME_XML == 1},
                               {"TOML", "libtomlplusplus-dev", TRIREME_TOML == 1},
                               {"YAML", "libyaml-cpp-dev", TRIREME_YAML == 1}};

}  // namespace

std::string version() {
  return TRIREME_VERSION;
}

std::string compiler() {
#ifdef __clang__
  return "Clang " __clang_version__;
#else
  return "GCC " __VERSION__;
#endif
}

bool built_with_cuda() {
  return TRIREME_CUDA_BUILT == 1;
}

std::string build_text() {
  return "trireme " + version() + " (commit " + kTriremeCommit + ", " + compiler() +
         (built_with_cuda() ? ", with" : ", without") + " the CUDA runtime)";
}

std::string readers_built() {
  std::string names;
  for (const Reader& reader : kReaders) {
    if (reader.built) {
      names += (names.empty() ? "" : ", ") + std::string(reader.name);
    }
  }
  return names.empty() ? "none" : names;
}

std::string readers_missing() {
  std::string packages;
  for (const Reader& reader : kReaders) {
    if (!reader.built) {
      packages += (packages.empty() ? "" : " ") + std::string(reader.package);
    }
  }
  return packages;
}

}  // namespace trireme::tools
