// The card that a text names beside its matrix: people paste nvidia-smi's table, `nvidia-smi -L` or
// PyTorch's collect_env with it.
#include <algorithm>
#include <cctype>
#include <sstream>

#include "topologies/import/facts.h"
#include "topologies/import/smi_matrix.h"

namespace trireme::topologies {
namespace {

constexpr std::size_t kLongestName = 8;  // words: "RTX PRO 6000 Blackwell Server Edition" has six

bool starts_name(const std::string& word) {
  return word == "NVIDIA" || word == "Tesla" || word == "Quadro" || word == "GeForce";
}

// The most words from here that are a preset's name: "H100 PCIe Off" is no H100-SXM5. Names that
// the table cuts short ("A100-SXM...") say too little.
const Gpu* longest_name(const std::vector<std::string>& words, std::size_t at) {
  for (std::size_t count = std::min(kLongestName, words.size() - at); count > 0; --count) {
    std::string name;
    for (std::size_t i = at; i < at + count; ++i) {
      name += words[i] + (i + 1 < at + count ? " " : "");
    }
    if (name.ends_with("...")) {
      return nullptr;
    }
    while (!name.empty() && std::ispunct(static_cast<unsigned char>(name.back())) != 0) {
      name.pop_back();
    }
    if (const Gpu* gpu = known_gpu(name)) {
      return gpu;
    }
  }
  return nullptr;
}

// "GPU 0: NVIDIA GeForce GTX 1080 Ti (UUID: …)": a card for certain, of whatever kind.
std::string listed_name(const std::vector<std::string>& words) {
  if (words.size() < 4 || words[0] != "GPU" || !words[1].ends_with(":") ||
      std::isdigit(static_cast<unsigned char>(words[1][0])) == 0) {
    return {};
  }
  std::string name;
  for (std::size_t i = 2; i < words.size() && !words[i].starts_with("("); ++i) {
    name += (name.empty() ? "" : " ") + words[i];
  }
  return name;
}

}  // namespace

NamedCard card_named_in(const std::string& text) {
  NamedCard named;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::vector<std::string> words = words_of_line(line);
    for (std::size_t at = 0; at + 1 < words.size(); ++at) {
      if (!starts_name(words[at])) {
        continue;
      }
      if (const Gpu* gpu = longest_name(words, words[at] == "NVIDIA" ? at + 1 : at)) {
        return {gpu, {}};
      }
    }
    if (named.unknown.empty()) {
      named.unknown = listed_name(words);
    }
  }
  return named;
}

}  // namespace trireme::topologies
