#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/error.h"
#include "core/files.h"
#include "core/json_reader.h"
#include "runtime/checkpoint.h"
#include "runtime/checkpoint_pieces.h"
#include "runtime/rank_files.h"

namespace trireme::runtime {
namespace {

namespace fs = std::filesystem;

struct SavedPiece {
  Piece piece;
  std::int64_t rank = 0;
  std::int64_t offset = 0;
};

struct SavedParameter {
  std::int64_t rows = 0, columns = 0;
  std::map<State, std::vector<SavedPiece>> states;
};

struct Saved {
  fs::path folder;
  CheckpointStep at;
  std::map<std::string, SavedParameter> parameters;
  RankFiles files;
};

SavedPiece read_piece(JsonReader& reader) {
  constexpr std::int64_t kLimit = std::int64_t{1} << 50;
  SavedPiece saved;
  saved.rank = reader.integer("rank", 0, kLimit);
  saved.offset = reader.integer("offset", 0, kLimit);
  saved.piece.row_begin = reader.integer("row_begin", 0, kLimit);
  saved.piece.row_count = reader.integer("row_count", 1, kLimit);
  saved.piece.column_begin = reader.integer("column_begin", 0, kLimit);
  saved.piece.column_count = reader.integer("column_count", 1, kLimit);
  saved.piece.flat_begin = reader.integer("flat_begin", 0, kLimit);
  saved.piece.count = reader.integer("count", 1, kLimit);
  reader.finish();
  return saved;
}

fs::path newest_step(const std::string& folder) {
  fs::path root(folder);
  if (fs::exists(root / "checkpoint.json")) {
    return root;
  }
  std::string name;
  if (fs::exists(root / "latest")) {
    std::istringstream(read_file((root / "latest").string(), "the name of a checkpoint", 4096)) >>
        name;
  }
  if (name.empty() || !fs::exists(root / name / "checkpoint.json")) {
    throw Error(
        folder,
        "holds no checkpoint; --resume wants the folder given to --save, or one step-N of it");
  }
  return root / name;
}

Saved open_checkpoint(const std::string& folder) {
  Saved saved;
  saved.folder = newest_step(folder);
  const std::string path = (saved.folder / "checkpoint.json").string();
  const nlohmann::json json = read_json_file(path);
  JsonReader reader(json, path);
  if (reader.text("schema") != "trireme.checkpoint/1") {
    reader.fail("schema", "must be trireme.checkpoint/1");
  }
  saved.at.step = reader.integer("step", 0);
  saved.at.sequences = reader.integer("sequences", 0);
  saved.at.seed = static_cast<std::uint64_t>(reader.integer("seed", 0));
  reader.ignore("layout");
  reader.ignore("ranks");
  const std::int64_t value_bytes = reader.integer("value_bytes", 4, 8);
  if (value_bytes != 4 && value_bytes != 8) {
    reader.fail("value_bytes", "must be 4 or 8");
  }
  saved.files = RankFiles(saved.folder, value_bytes);
  for (const auto& [name, entry] : reader.raw("parameters").items()) {
    JsonReader parameter(entry, reader.where("parameters") + "/" + name);
    SavedParameter& target = saved.parameters[name];
    target.rows = parameter.integer("rows", 1);
    target.columns = parameter.integer("columns", 1);
    for (const State state : kSaved) {
      for (JsonReader& piece : parameter.objects(std::string(to_string(state)))) {
        target.states[state].push_back(read_piece(piece));
      }
    }
    parameter.finish();
  }
  reader.finish();
  return saved;
}

// Fills the part of row `row`, columns [first, last), of which `piece` holds something, and marks
// it in `have`.
void fill_run(Saved& saved, const SavedPiece& from, std::int64_t row, std::int64_t first,
              std::int64_t last, double* to, std::vector<char>& have) {
  const Piece& p = from.piece;
  if (row < p.row_begin || row >= p.row_begin + p.row_count) {
    return;
  }
  const std::int64_t line = (row - p.row_begin) * p.column_count - p.column_begin - p.flat_begin;
  const std::int64_t begin = std::max({first, p.column_begin, -line});
  const std::int64_t end = std::min({last, p.column_begin + p.column_count, p.count - line});
  if (begin < end) {
    saved.files.read(from.rank, from.offset + line + begin, end - begin, to + (begin - first));
    std::fill(have.begin() + (begin - first), have.begin() + (end - first), char{1});
  }
}

std::vector<double> read_saved(Saved& saved, const Parameter& parameter, State state,
                               const ParameterSlice& wanted) {
  const std::vector<SavedPiece>& pieces = saved.parameters.at(parameter.name).states[state];
  std::vector<double> values(static_cast<std::size_t>(wanted.count));
  for (const SavedPiece& piece : pieces) {
    if (piece.piece == piece_of(wanted)) {
      saved.files.read(piece.rank, piece.offset, wanted.count, values.data());
      return values;
    }
  }
  std::int64_t done = 0;
  while (done < wanted.count) {
    const std::int64_t flat = wanted.flat_begin + done;
    const std::int64_t row = wanted.row_begin + flat / wanted.column_count;
    const std::int64_t first = wanted.column_begin + flat % wanted.column_count;
    const std::int64_t last =
        std::min(first + wanted.count - done, wanted.column_begin + wanted.column_count);
    std::vector<char> have(static_cast<std::size_t>(last - first), char{0});
    for (const SavedPiece& piece : pieces) {
      fill_run(saved, piece, row, first, last, values.data() + done, have);
    }
    if (std::find(have.begin(), have.end(), char{0}) != have.end()) {
      throw Error(saved.folder.string(), fmt::format("{} of {}: row {} is not whole",
                                                     to_string(state), parameter.name, row));
    }
    done += last - first;
  }
  return values;
}

// Frozen parameters have no master: they are as the run's seed made them, unless the checkpoint has
// them of a run that trained them.
bool is_frozen(const Program& role, const Parameter& parameter) {
  const auto master = static_cast<std::size_t>(State::kMaster);
  return role.units[parameter.unit].states[master].operand.count == 0;
}

void check_parameters(const Saved& saved, const Program& role) {
  for (const Parameter& parameter : role.parameters) {
    const auto found = saved.parameters.find(parameter.name);
    if (found == saved.parameters.end() && is_frozen(role, parameter)) {
      continue;
    }
    if (found == saved.parameters.end()) {
      throw Error(saved.folder.string(),
                  fmt::format("has no parameter {}; it is another model's, or of a run that did "
                              "not train it",
                              parameter.name));
    }
    if (found->second.rows != parameter.rows || found->second.columns != parameter.columns) {
      throw Error(
          saved.folder.string(),
          fmt::format("{} is {} x {}, the model's is {} x {}", parameter.name, found->second.rows,
                      found->second.columns, parameter.rows, parameter.columns));
    }
  }
}

}  // namespace

CheckpointStep load_checkpoint(const std::string& folder, RankExecutor& executor) {
  Saved saved = open_checkpoint(folder);
  const StepProgram& program = executor.program();
  const Program& role = executor.role();
  check_parameters(saved, role);
  const auto& parameters = role.parameters;
  if (std::any_of(parameters.begin(), parameters.end(),
                  [&](const Parameter& parameter) { return is_frozen(role, parameter); })) {
    executor.initialise(saved.at.seed);
  }
  for (const State state : {State::kWeight, State::kMaster, State::kMoment1, State::kMoment2}) {
    const State source =
        state == State::kWeight ? State::kMaster : state;  // weights are their masters, narrowed
    for (const ParameterSlice& slice : parameter_slices(program, executor.rank(), state)) {
      const Parameter& parameter = role.parameters[slice.parameter];
      if (saved.parameters.count(parameter.name) > 0) {
        executor.write_slice(slice, read_saved(saved, parameter, source, slice));
      }
    }
  }
  return saved.at;
}

}  // namespace trireme::runtime
