#include "planner/calibrate/nccl_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <optional>
#include <set>
#include <span>

#include "core/error.h"

namespace trireme::planner {
namespace {

struct ToolName {
  std::string_view text, operation;
};
// As tools, launch lines and titles spell them; the longer of two that both match comes first.
constexpr std::array<ToolName, 15> kTools = {{{"all_reduce", "all_reduce"},
                                              {"allreduce", "all_reduce"},
                                              {"all_gather", "all_gather"},
                                              {"allgather", "all_gather"},
                                              {"reduce_scatter", "reduce_scatter"},
                                              {"reducescatter", "reduce_scatter"},
                                              {"alltoall", "all_to_all"},
                                              {"all_to_all", "all_to_all"},
                                              {"broadcast", "broadcast"},
                                              {"sendrecv", "send_recv"},
                                              {"send_recv", "send_recv"},
                                              {"hypercube", "hypercube"},
                                              {"scatter_perf", "scatter"},
                                              {"gather_perf", "gather"},
                                              {"reduce_perf", "reduce"}}};

std::string lower(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return result;
}

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  std::size_t at = 0;
  while (true) {
    at = line.find_first_not_of(" \t\r|", at);
    if (at == std::string_view::npos) {
      return words;
    }
    const std::size_t end = std::min(line.find_first_of(" \t\r|", at), line.size());
    words.push_back(line.substr(at, end - at));
    at = end;
  }
}

std::optional<double> number(std::string_view word) {
  double value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size() || !std::isfinite(value)) {
    return std::nullopt;
  }
  return value;
}

// mpirun --tag-output writes "[1,0]<stdout>:", srun --label "0: ", kubectl "[pod-0] ".
std::string_view without_prefix(std::string_view line) {
  if (const auto tag = line.find(">:"); line.starts_with('[') && tag != std::string_view::npos) {
    return line.substr(tag + 2);
  }
  const auto colon = line.find(": ");
  const bool label = colon != std::string_view::npos && colon > 0 && colon < 6 &&
                     std::ranges::all_of(line.substr(0, colon),
                                         [](char c) { return (c >= '0' && c <= '9') || c == ' '; });
  return label ? line.substr(colon + 2) : line;
}

// Which columns of a row hold what: by the header's words, since the tools of 2017 had "res" for
// "#wrong" and no root, and reports leave columns out.
struct Columns {
  std::size_t count = 0;
  int time = -1, bus = -1, time_in_place = -1, bus_in_place = -1;
  int wrong = -1, wrong_in_place = -1;
  bool host_times = false;
  double unit = 1e-6;  // of the times, in seconds
};

std::optional<Columns> columns_of(const std::vector<std::string_view>& words) {
  Columns columns;
  bool size = false;
  for (const std::string_view raw : words) {
    const std::string word = lower(raw);
    if (word == "#") {
      continue;
    }
    const auto at = static_cast<int>(columns.count++);
    size = size || (at == 0 && (word == "size" || word == "#size" || word == "bytes"));
    if (word == "#wrong" || word == "wrong") {
      (columns.wrong < 0 ? columns.wrong : columns.wrong_in_place) = at;
    } else if (word.starts_with("time") || word.starts_with("cputime")) {
      columns.host_times = columns.host_times || word.starts_with("cpu");
      (columns.time < 0 ? columns.time : columns.time_in_place) = at;
      columns.unit = word.find("ms") != std::string::npos ? 1e-3 : columns.unit;
    } else if (word.starts_with("busbw")) {
      (columns.bus < 0 ? columns.bus : columns.bus_in_place) = at;
    }
  }
  if (!size || columns.time < 0) {
    return std::nullopt;
  }
  return columns;
}

// Launchers and collectors of logs write a word or two of their own before each line: "node-a:",
// "[pod-0]", a date. What follows starts with a size, or with the header's or a remark's #.
std::span<const std::string_view> without_labels(std::span<const std::string_view> words) {
  constexpr std::size_t kMost = 4;
  for (std::size_t i = 0; i < std::min(words.size(), kMost); ++i) {
    const std::string_view word = words[i];
    if (word.starts_with('#') || number(word) || lower(word) == "size" || lower(word) == "bytes") {
      return words.subspan(i);
    }
    const bool label = word.ends_with(':') || word.ends_with(']') || word.ends_with('>') ||
                       word.find(':') != std::string_view::npos ||
                       (word.size() > 4 && word.find('-') != std::string_view::npos);
    if (!label) {
      break;
    }
  }
  return words;
}

class Reader {
 public:
  explicit Reader(std::string where) : where_(std::move(where)) {}

  void line(std::string_view raw) {
    ++number_;
    const std::string_view text = without_prefix(raw);
    const std::vector<std::string_view> all = words_of(text);
    const auto own = without_labels(all);
    const std::vector<std::string_view> words(own.begin(), own.end());
    if (words.empty()) {
      return;
    }
    if (const auto columns = columns_of(words)) {
      columns_ = *columns;
      start_table();
      return;
    }
    if (words.front().starts_with('#') || !number(words.front())) {
      remark(text, words);
      return;
    }
    row(words);
  }

  std::vector<NcclLogTable> finish() {
    std::erase_if(tables_, [](const NcclLogTable& table) { return table.rows.empty(); });
    if (tables_.empty()) {
      throw Error(where_,
                  "holds no table of nccl-tests: a header line with size and time, then rows");
    }
    return std::move(tables_);
  }

 private:
  // Units stand on the line below the header: "(B) (elements) (us) (GB/s)". Banner lines name
  // ranks, hosts and the GPU; launch lines and titles the tool.
  void remark(std::string_view text, const std::vector<std::string_view>& words) {
    const std::string plain = lower(text);
    if (plain.find(" nccl info ") != std::string::npos) {
      return;  // NCCL_DEBUG writes between the rows
    }
    if (plain.find("(b)") != std::string::npos && plain.find("(ms)") != std::string::npos) {
      columns_.unit = 1e-3;
    }
    if (plain.find("out of bounds values") != std::string::npos &&
        plain.find("failed") != std::string::npos) {
      throw Error(fmt::format("{}:{}", where_, number_),
                  "the run's data check failed; times of wrong results are not taken");
    }
    const bool starts = plain.find("nthread") != std::string::npos ||
                        plain.find("collective test starting") != std::string::npos;
    const auto named = std::ranges::find_if(kTools, [&plain](const ToolName& tool) {
      return plain.find(tool.text) != std::string::npos;
    });
    const bool names = named != kTools.end() && (plain.find("_perf") != std::string::npos ||
                                                 plain.find("nccl_") == std::string::npos);
    if ((starts || names) && in_rows_) {
      in_rows_ = false;
      ranks_.clear();
      hosts_.clear();
      gpu_.clear();
      operation_.clear();
    }
    if (names) {
      operation_ = named->operation;
    }
    if (plain.find("rank") != std::string::npos && plain.find(" pid ") != std::string::npos) {
      banner(text, words);
    }
  }

  // "#  Rank  0 Group  0 Pid  1234 on  node-a device  0 [0000:1b:00] NVIDIA H100 80GB HBM3"
  void banner(std::string_view text, const std::vector<std::string_view>& words) {
    const auto after = [&words](std::string_view key) -> std::string_view {
      for (std::size_t i = 0; i + 1 < words.size(); ++i) {
        if (lower(words[i]) == key) {
          return words[i + 1];
        }
      }
      return "";
    };
    ranks_.insert(std::string(after("rank")));
    hosts_.insert(std::string(after("on")));
    if (const auto bracket = text.find("] "); bracket != std::string_view::npos) {
      const std::string_view name = text.substr(bracket + 2);
      gpu_ = name.substr(0, name.find_last_not_of(" \t\r") + 1);
    }
  }

  void start_table() {
    in_rows_ = true;
    NcclLogTable table;
    table.operation = operation_;
    table.ranks = static_cast<std::int64_t>(ranks_.size());
    table.hosts = static_cast<std::int64_t>(hosts_.size());
    table.gpu = gpu_;
    table.line = number_;
    table.host_times = columns_.host_times;
    tables_.push_back(std::move(table));
  }

  [[nodiscard]] double positive(const std::vector<std::string_view>& words, int column,
                                const char* what) const {
    const auto at = static_cast<std::size_t>(column);
    const std::optional<double> value = at < words.size() ? number(words[at]) : std::nullopt;
    if (!value || *value < 0) {
      throw Error(fmt::format("{}:{}", where_, number_),
                  fmt::format("{} is '{}'; a number is expected", what,
                              at < words.size() ? words[at] : ""));
    }
    return *value;
  }

  void row(const std::vector<std::string_view>& words) {
    // Some tools leave the columns of operation and root blank.
    constexpr std::size_t kBlank = 2;
    if (!in_rows_ || words.size() + kBlank < columns_.count) {
      return;
    }
    const int shift = words.size() < columns_.count
                          ? static_cast<int>(words.size()) - static_cast<int>(columns_.count)
                          : 0;
    const auto in_place = [&](int column) {
      const auto at = static_cast<std::size_t>(std::ptrdiff_t{column} + shift);
      return column >= 0 && at < words.size() ? number(words[at]).value_or(0) : 0.0;
    };
    NcclLogRow row;
    const double bytes = positive(words, 0, "size");
    if (bytes < 1 || bytes > 1e15 || bytes != std::floor(bytes)) {
      return;
    }
    row.bytes = static_cast<std::int64_t>(bytes);
    row.seconds = positive(words, columns_.time + shift, "time") * columns_.unit;
    if (columns_.bus >= 0) {
      row.bus_gbytes_per_second = positive(words, columns_.bus + shift, "busbw");
    }
    row.in_place_seconds = in_place(columns_.time_in_place) * columns_.unit;
    row.in_place_bus_gbytes_per_second = in_place(columns_.bus_in_place);
    for (const int column : {columns_.wrong, columns_.wrong_in_place}) {
      if (in_place(column) > 0) {
        throw Error(fmt::format("{}:{}", where_, number_),
                    fmt::format("{} values of {} bytes were wrong; times of wrong results are not "
                                "taken",
                                in_place(column), row.bytes));
      }
    }
    if (row.seconds > 0) {
      tables_.back().rows.push_back(row);
    }
  }

  std::string where_;
  std::size_t number_ = 0;
  Columns columns_;
  bool in_rows_ = false;
  std::string operation_, gpu_;
  std::set<std::string> ranks_, hosts_;
  std::vector<NcclLogTable> tables_;
};

}  // namespace

std::string nccl_operation_in(std::string_view text) {
  const std::string plain = lower(text);
  const auto named = std::ranges::find_if(kTools, [&plain](const ToolName& tool) {
    return plain.find(tool.text) != std::string::npos;
  });
  return named == kTools.end() ? "" : std::string(named->operation);
}

std::vector<NcclLogTable> parse_nccl_log(std::string_view text, const std::string& where) {
  Reader reader(where);
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    reader.line(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return reader.finish();
}

}  // namespace trireme::planner
