#include "topologies/nccl_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <string_view>

#include "core/error.h"
#include "topologies/nccl_constants.h"

namespace trireme::topologies {
namespace {

struct Name {
  std::string_view text;
  unsigned bit;
};

constexpr unsigned bit(NcclAlgorithm algorithm) {
  return 1U << index_of(algorithm);
}
constexpr unsigned bit(NcclProtocol protocol) {
  return 1U << index_of(protocol);
}

// CollNet needs switches that reduce, which no network here has: NCCL runs without it then.
constexpr std::array<Name, 7> kAlgorithms = {{{"tree", bit(NcclAlgorithm::kTree)},
                                              {"ring", bit(NcclAlgorithm::kRing)},
                                              {"nvls", bit(NcclAlgorithm::kNvls)},
                                              {"nvlstree", bit(NcclAlgorithm::kNvlsTree)},
                                              {"pat", bit(NcclAlgorithm::kPat)},
                                              {"collnetdirect", 0},
                                              {"collnetchain", 0}}};
constexpr std::array<Name, 3> kProtocols = {{{"ll", bit(NcclProtocol::kLL)},
                                             {"ll128", bit(NcclProtocol::kLL128)},
                                             {"simple", bit(NcclProtocol::kSimple)}}};

std::string plain(std::string_view text) {
  std::string lower;
  for (const char c : text) {
    if (std::isspace(static_cast<unsigned char>(c)) == 0 && c != '_') {
      lower += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  return lower;
}

// "Ring,Tree", "^NVLS" (all but), "allreduce:ring;broadcast:tree" is more than is read here.
template <std::size_t N>
unsigned read_set(const std::string& value, const std::array<Name, N>& names,
                  const std::string& where) {
  std::string text = plain(value);
  const bool without = text.starts_with('^');
  text.erase(0, without ? 1 : 0);
  unsigned all = 0;
  std::string known;
  for (const Name& name : names) {
    all |= name.bit;
    known += (known.empty() ? "" : ", ") + std::string(name.text);
  }
  unsigned set = 0;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    const auto found = std::ranges::find(names, word, &Name::text);
    if (found == names.end()) {
      throw Error(where, fmt::format("'{}' should be one or more of {}, with commas, or ^ before "
                                     "those to leave out",
                                     value, known));
    }
    set |= found->bit;
    begin = end + 1;
  }
  const unsigned result = without ? all & ~set : set;
  if (result == 0) {
    throw Error(where, "'" + value + "' leaves nothing that can run here");
  }
  return result;
}

// LOC, PIX, PXB, PHB, NODE, SYS, or the old numbers 0 to 5.
Path read_level(const std::string& value, const std::string& where) {
  constexpr std::array<std::string_view, 6> kNames = {"loc", "pix", "pxb", "phb", "node", "sys"};
  const std::string text = plain(value);
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (text == kNames[i] || text == std::to_string(i)) {
      return static_cast<Path>(i);
    }
  }
  throw Error(where, "'" + value + "' should be one of LOC, PIX, PXB, PHB, NODE, SYS");
}

constexpr std::array<std::string_view, 10> kRead = {
    "NCCL_ALGO",        "NCCL_PROTO",     "NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS",
    "NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL", "NCCL_NET_GDR_LEVEL", "NCCL_CROSS_NIC",
    "NCCL_MIN_CTAS",    "NCCL_MAX_CTAS"};  // the last two: newer names of channels

}  // namespace

bool is_nccl_setting(const std::string& name) {
  return std::ranges::find(kRead, name) != kRead.end();
}

void apply_nccl_setting(NcclSettings& settings, const std::string& name, const std::string& value,
                        const std::string& where) {
  constexpr int kMostChannels = 64;
  const auto count = [&](int low, int high) {
    int number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error != std::errc() || end != value.data() + value.size() || number < low ||
        number > high) {
      throw Error(where, "'" + value + "' should be a number from " + std::to_string(low) + " to " +
                             std::to_string(high));
    }
    return number;
  };
  if (name == "NCCL_ALGO") {
    settings.algorithms = read_set(value, kAlgorithms, where);
  } else if (name == "NCCL_PROTO") {
    settings.protocols = read_set(value, kProtocols, where);
  } else if (name == "NCCL_MIN_NCHANNELS" || name == "NCCL_MIN_CTAS") {
    settings.min_channels = count(1, kMostChannels);
  } else if (name == "NCCL_MAX_NCHANNELS" || name == "NCCL_MAX_CTAS") {
    settings.max_channels = count(1, kMostChannels);
  } else if (name == "NCCL_P2P_DISABLE") {
    settings.peer_to_peer = count(0, 1) == 0;
  } else if (name == "NCCL_P2P_LEVEL") {
    settings.peer_to_peer = read_level(value, where) != Path::kSame;
  } else if (name == "NCCL_NET_GDR_LEVEL") {
    settings.gdr_level = read_level(value, where);
  } else if (name == "NCCL_CROSS_NIC") {
    settings.cross_nic = count(0, 2);
  } else {
    throw Error(where, "'" + name +
                           "' is not read here; NCCL_ALGO, NCCL_PROTO, NCCL_MIN_NCHANNELS, "
                           "NCCL_MAX_NCHANNELS, NCCL_P2P_DISABLE, NCCL_P2P_LEVEL, "
                           "NCCL_NET_GDR_LEVEL and NCCL_CROSS_NIC are");
  }
  std::erase_if(settings.said, [&name](const auto& entry) { return entry.first == name; });
  settings.said.emplace_back(name, value);
}

}  // namespace trireme::topologies
