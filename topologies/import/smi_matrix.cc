#include "topologies/import/smi_matrix.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <sstream>

#include "core/error.h"

namespace trireme::topologies {

std::optional<Path> path_of_word(const std::string& word) {
  constexpr std::pair<const char*, Path> kPaths[] = {
      {"X", Path::kSame},    {"PIX", Path::kSwitch}, {"PXB", Path::kTree},  {"PHB", Path::kBridge},
      {"NODE", Path::kNode}, {"SYS", Path::kSystem}, {"SOC", Path::kSystem}};
  for (const auto& [name, path] : kPaths) {
    if (word == name) {
      return path;
    }
  }
  return std::nullopt;
}

int links_of_word(const std::string& word) {
  int count = 0;
  if (word.starts_with("NV") && word.size() > 2) {
    const auto [end, error] = std::from_chars(word.data() + 2, word.data() + word.size(), count);
    count =
        error == std::errc() && end == word.data() + word.size() ? std::clamp(count, 0, 1000) : 0;
  }
  return count;
}

namespace {

bool is_gpu_name(const std::string& word) {
  return word.size() > 3 && word.size() < 10 && word.starts_with("GPU") &&
         std::ranges::all_of(word.substr(3), [](unsigned char c) { return std::isdigit(c) != 0; });
}

// Terminals' escape sequences ("\033[4m"), also without their first character as some pages show
// them, carriage returns and the byte-order mark.
std::string plain_line(const std::string& line) {
  std::string plain;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const bool escape = line[i] == '\x1b';
    const std::size_t open = escape ? i + 1 : i;
    if (open < line.size() && line[open] == '[') {
      std::size_t end = open + 1;
      while (end < line.size() &&
             (std::isdigit(static_cast<unsigned char>(line[end])) != 0 || line[end] == ';')) {
        ++end;
      }
      const bool letter = end < line.size() && (escape || (line[end] == 'm' && end <= open + 3));
      if (letter) {
        i = end;
        continue;
      }
    }
    if (escape || line[i] == '\r' || line[i] == '|' || line.compare(i, 3, "\xef\xbb\xbf") == 0) {
      i += line.compare(i, 3, "\xef\xbb\xbf") == 0 ? 2 : 0;
      plain += ' ';
      continue;
    }
    plain += line[i];
  }
  return plain;
}

}  // namespace

std::vector<std::string> words_of_line(const std::string& line) {
  std::istringstream stream(plain_line(line));
  std::vector<std::string> words;
  for (std::string word; stream >> word;) {
    words.push_back(word);
  }
  return words;
}

namespace {

bool is_one_cell(const std::string& word) {
  return path_of_word(word).has_value() || links_of_word(word) > 0 || word == "N/A" || word == "?";
}

// The cells of a word: pages lose the blanks between some ("NODENODE"). Empty: it is none.
std::vector<std::string> cells_of(const std::string& word) {
  if (is_one_cell(word)) {
    return {word};
  }
  std::vector<std::string> cells;
  for (std::size_t at = 0; at < word.size();) {
    std::size_t length = 0;
    for (std::size_t size = 2; size <= 5 && at + size <= word.size(); ++size) {
      length = is_one_cell(word.substr(at, size)) ? size : length;
    }
    if (length == 0 || cells.size() >= 64) {
      return {};
    }
    cells.push_back(word.substr(at, length));
    at += length;
  }
  return cells;
}

bool is_cell(const std::string& word) {
  return !cells_of(word).empty();
}

bool starts_header(const std::vector<std::string>& words, std::size_t& at) {
  for (at = 0; at < words.size(); ++at) {
    if (is_gpu_name(words[at])) {
      return at + 1 == words.size() || !is_cell(words[at + 1]);
    }
  }
  return false;
}

// Header words up to the affinity columns. "GPU NUMA ID" is three words of one column behind them.
void read_header(const std::vector<std::string>& words, std::size_t at, SmiMatrix& matrix) {
  for (; at < words.size(); ++at) {
    const std::string& word = words[at];
    if (word == "CPU" || word == "NUMA" || word == "GPU" || word == "Affinity") {
      matrix.memory_column = true;
      break;
    }
    if (std::ranges::find(matrix.devices, word) == matrix.devices.end()) {
      matrix.devices.push_back(word);
    }
  }
  std::stable_partition(matrix.devices.begin(), matrix.devices.end(), is_gpu_name);
  matrix.gpus = static_cast<std::size_t>(std::ranges::count_if(matrix.devices, is_gpu_name));
  matrix.cells.assign(matrix.devices.size(), {});
  matrix.memory.assign(matrix.devices.size(), "");
}

// Capital letters, with a number at most: a path that was mistyped, and no list of CPUs.
bool looks_like_relation(const std::string& word) {
  return word.size() < 8 && std::isupper(static_cast<unsigned char>(word[0])) != 0 &&
         std::ranges::all_of(
             word, [](unsigned char c) { return std::isupper(c) != 0 || std::isdigit(c) != 0; });
}

// The columns behind a GPU's cells: CPU affinity, NUMA affinity, and the NUMA node that its memory
// is, a number only where CPU and GPU share one address space. (Drivers may be told not to.)
bool is_of_grace(const std::vector<std::string>& words, std::size_t end) {
  if (end >= words.size()) {
    return false;
  }
  const std::string& last = words.back();
  const bool own_node = words.size() == end + 3 && std::ranges::all_of(last, [](unsigned char c) {
                          return std::isdigit(c) != 0;
                        });
  return own_node || words[end] == "0-71" || words[end] == "72-143";
}

void read_row(const std::vector<std::string>& words, std::size_t at, std::size_t row,
              const std::string& name, SmiMatrix& matrix) {
  std::size_t end = at + 1;
  std::vector<std::string> cells;
  while (end < words.size() && cells.size() < matrix.devices.size() && is_cell(words[end])) {
    const std::vector<std::string> more = cells_of(words[end]);
    cells.insert(cells.end(), more.begin(), more.end());
    ++end;
  }
  cells.resize(std::min(cells.size(), matrix.devices.size()));
  if (row < matrix.gpus && cells.size() < matrix.gpus) {
    throw Error(name, "row '" + words[at] +
                          "' has fewer cells than the header has GPUs, or one that is no path (X, "
                          "NV#, PIX, PXB, PHB, NODE, SYS)");
  }
  // A word in a column of its own that is none, where more stand behind it than affinities.
  if (cells.size() < matrix.devices.size() && end + 1 < words.size() &&
      looks_like_relation(words[end])) {
    throw Error(name, "row '" + words[at] + "' has '" + words[end] + "' below " +
                          matrix.devices[cells.size()] +
                          ", which is no path (X, NV#, PIX, PXB, PHB, NODE, SYS)");
  }
  if (!matrix.cells[row].empty()) {
    throw Error(name, "row '" + words[at] + "' stands twice; one row a device would be right");
  }
  if (row < cells.size() && cells[row] != "X") {
    throw Error(
        name, "row '" + words[at] + "' has " + cells[row] + " in its own column; X would be right");
  }
  matrix.cells[row] = cells;
  if (row < matrix.gpus && matrix.memory_column) {
    matrix.grace = matrix.grace || is_of_grace(words, end);
    for (std::size_t i = end; i < std::min(words.size(), end + 2); ++i) {
      matrix.memory[row] += words[i] == "N/A" ? "" : words[i] + " ";
    }
  }
}

// "GPU0 X GNS OK": a row of the peer access matrix, which names no path.
bool read_access(const std::vector<std::string>& words, SmiMatrix& matrix) {
  if (words.size() < 2 || !is_gpu_name(words[0])) {
    return false;
  }
  int peers = 0;
  int strangers = 0;
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string& word = words[i];
    const bool refused = word == "CNS" || word == "GNS" || word == "TNS" || word == "DR";
    if (word != "X" && word != "OK" && word != "NS" && word != "U" && !refused) {
      return false;
    }
    peers += word == "OK" ? 1 : 0;
    strangers += refused ? 1 : 0;
  }
  matrix.peers += peers;
  matrix.strangers += strangers;
  return peers + strangers > 0;
}

void read_line(const std::vector<std::string>& words, const std::string& name, SmiMatrix& matrix) {
  if (read_access(words, matrix)) {
    return;
  }
  std::size_t at = 0;
  if (starts_header(words, at)) {
    const bool nothing_yet =
        std::ranges::all_of(matrix.cells, [](const auto& row) { return row.empty(); });
    if (nothing_yet) {
      matrix.devices.clear();  // the header of a matrix without paths came before
      matrix.matrices = 0;
      read_header(words, at, matrix);
    }
    ++matrix.matrices;
    return;
  }
  if (matrix.matrices > 1) {
    return;
  }
  // "NIC0: mlx5_0" below the matrix.
  if (words.size() == 2 && words[0].size() > 4 && words[0].starts_with("NIC") &&
      words[0].ends_with(":")) {
    matrix.legend[words[0].substr(0, words[0].size() - 1)] = words[1];
    return;
  }
  // A launcher's or a log's prefix may stand before the row's name.
  for (at = 0; at + 1 < words.size(); ++at) {
    if (!is_cell(words[at + 1])) {
      continue;
    }
    const auto found = std::ranges::find(matrix.devices, words[at]);
    if (found != matrix.devices.end()) {
      read_row(words, at, static_cast<std::size_t>(found - matrix.devices.begin()), name, matrix);
    } else if (is_gpu_name(words[at])) {
      throw Error(name, "row '" + words[at] + "' has no column of its own in the header");
    }
    return;
  }
  if (!words.empty() && is_gpu_name(words[0])) {
    throw Error(name, "row '" + words[0] + "' holds no path (X, NV#, PIX, PXB, PHB, NODE, SYS)");
  }
}

}  // namespace

SmiMatrix parse_smi_matrix(const std::string& text, const std::string& name) {
  SmiMatrix matrix;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    read_line(words_of_line(line), name, matrix);
  }
  if (matrix.gpus == 0 ||
      std::all_of(matrix.cells.begin(),
                  matrix.cells.begin() + static_cast<std::ptrdiff_t>(matrix.gpus),
                  [](const auto& row) { return row.empty(); })) {
    if (text.find("topo -p2p") != std::string::npos) {
      throw Error(name,
                  "holds peer access only; the matrix of nvidia-smi topo -m in the same file "
                  "says what joins the GPUs");
    }
    if (text.find("3D controller") != std::string::npos) {
      throw Error(name,
                  "is lspci's list without the state of its links; that of lspci -vvv, as "
                  "root, would be right");
    }
    if (text.find("busbw") != std::string::npos) {
      throw Error(name,
                  "is a log of nccl-tests, which calibrate and topo lint --log read; it does "
                  "not say what joins the GPUs");
    }
    throw Error(name,
                "is no topology that is read here: NCCL or lstopo XML, nvidia-smi topo -m, "
                "rocm-smi --showtopo, an NCCL_DEBUG=INFO log, Slurm's topology.conf or "
                "topology.yaml, a topograph model, ibnetdiscover");
  }
  return matrix;
}

}  // namespace trireme::topologies
