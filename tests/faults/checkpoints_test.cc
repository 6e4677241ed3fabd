// Checkpoints on a disk that fails, and on a machine that loses its power: the last one always
// loads.
#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <map>

#include "core/error.h"
#include "core/files.h"
#include "runtime/checkpoint.h"
#include "runtime/cpu/threads.h"
#include "tests/faults/file_faults.h"
#include "tests/faults/tiny_program.h"

namespace trireme::runtime {
namespace {

namespace fs = std::filesystem;
using faults::Call;
using faults::Operation;
using faults::Watch;
using tests::tiny_program;

constexpr Seconds kNever(3600);

using Values = std::vector<std::vector<double>>;  // by rank

Values masters(RankExecutor& executor) {
  Values values;
  for (const ParameterSlice& slice :
       parameter_slices(executor.program(), executor.rank(), State::kMaster)) {
    values.push_back(executor.read_slice(slice));
  }
  return values;
}

class FaultyCheckpoints : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::path(testing::TempDir()) / "faults_XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    root_ = fs::canonical(name).string();
    fs::create_directory(folder());
  }
  void TearDown() override { fs::remove_all(root_); }
  [[nodiscard]] std::string folder() const { return root_ + "/saved"; }

  // Saves the values that this seed gives, as this step.
  void save(std::int64_t step, std::uint64_t seed) {
    cpu::run_on_threads(program_, {}, kNever, [&](cpu::ThreadRank& self) {
      self.executor.initialise(seed);
      save_checkpoint(folder(), {.step = step, .sequences = 8 * step, .seed = seed}, self.executor,
                      self.coordinator);
    });
  }
  // The seed that the checkpoint in `folder` was saved with, its values compared; 0: there is none.
  std::uint64_t load(const std::string& folder) {
    std::uint64_t seed = 0;
    cpu::run_on_threads(program_, {}, kNever, [&](cpu::ThreadRank& self) {
      const CheckpointStep at = load_checkpoint(folder, self.executor);
      const Values loaded = masters(self.executor);
      self.executor.initialise(at.seed);
      EXPECT_EQ(loaded, masters(self.executor)) << "of seed " << at.seed;
      if (index_of(self.executor.rank()) == 0) {
        seed = at.seed;
      }
    });
    return seed;
  }
  std::vector<Operation> recorded(std::int64_t step, std::uint64_t seed) {
    const Watch watch(root_);
    save(step, seed);
    return watch.operations();
  }

  StepProgram program_ = tiny_program(1);
  std::string root_;
};

// Writes of many values as writes of few: power is lost anywhere.
std::vector<Operation> in_pieces(const std::vector<Operation>& operations, std::size_t most) {
  std::vector<Operation> pieces;
  for (const Operation& operation : operations) {
    for (std::size_t begin = 0; operation.call == Call::kWrite && begin < operation.bytes.size();
         begin += most) {
      Operation piece = operation;
      piece.offset += static_cast<std::int64_t>(begin);
      piece.bytes = operation.bytes.substr(begin, most);
      pieces.push_back(std::move(piece));
    }
    if (operation.call != Call::kWrite) {
      pieces.push_back(operation);
    }
  }
  return pieces;
}

// What a file had when it was last flushed, by path; renames carry it along.
class Flushed {
 public:
  void see(const Operation& operation) {
    switch (operation.call) {
      case Call::kCreate:
        files_[operation.path] = {0, 0};
        break;
      case Call::kWrite:
        files_[operation.path].first += operation.bytes.size();
        break;
      case Call::kFlush:
        if (const auto found = files_.find(operation.path); found != files_.end()) {
          found->second.second = found->second.first;
        }
        break;
      case Call::kRename:
      case Call::kExchange:
        carry(operation.path, operation.to);
        break;
      case Call::kRemove:
        files_.erase(operation.path);
        break;
      case Call::kOpen:
      case Call::kRead:
      case Call::kMakeFolder:
        break;
    }
  }
  // The files that lose something now, with what stays.
  [[nodiscard]] std::map<std::string, std::size_t> losing() const {
    std::map<std::string, std::size_t> all;
    for (const auto& [path, sizes] : files_) {
      if (sizes.first != sizes.second) {
        all[path] = sizes.second;
      }
    }
    return all;
  }

 private:
  void carry(const std::string& from, const std::string& to) {
    std::map<std::string, std::pair<std::size_t, std::size_t>> moved;
    for (auto& [path, sizes] : files_) {
      const bool inside = path == from || path.starts_with(from + "/");
      moved[inside ? to + path.substr(from.size()) : path] = sizes;
    }
    files_ = std::move(moved);
  }
  std::map<std::string, std::pair<std::size_t, std::size_t>> files_;  // written, flushed
};

TEST_F(FaultyCheckpoints, PowerLostAtAnyMomentLeavesOneThatLoads) {
  for (const std::int64_t ranks : {1, 2}) {
    program_ = tiny_program(ranks);
    fs::remove_all(folder());
    fs::create_directory(folder());
    save(1, 11);
    std::uint64_t before = 11;
    std::size_t prefixes = 0;
    // A new step, then the same step again with other values.
    for (const auto& [step, seed] : {std::pair<std::int64_t, std::uint64_t>{2, 12}, {2, 13}}) {
      const std::string replayed = root_ + "/replayed", cut = root_ + "/cut";
      fs::remove_all(replayed);
      fs::copy(folder(), replayed, fs::copy_options::recursive);
      const std::vector<Operation> operations = in_pieces(recorded(step, seed), 40);
      const faults::Replay replay(folder(), replayed);
      Flushed flushed;
      std::uint64_t found = before;
      for (const Operation& operation : operations) {
        replay.apply(operation);
        flushed.see(operation);
        ++prefixes;
        const std::uint64_t now = load(replayed);
        ASSERT_TRUE(now == before || now == seed) << "prefix " << prefixes << " holds seed " << now;
        ASSERT_TRUE(found == before || now == seed) << "prefix " << prefixes << " went back";
        found = now;
        if (operation.call != Call::kWrite) {  // and what was not flushed is lost
          fs::remove_all(cut);
          fs::copy(replayed, cut, fs::copy_options::recursive);
          for (const auto& [path, size] : flushed.losing()) {
            fs::resize_file(cut + path.substr(folder().size()), size);
          }
          const std::uint64_t left = load(cut);
          ASSERT_TRUE(left == before || left == seed) << "prefix " << prefixes << ", flushed only";
        }
      }
      EXPECT_EQ(found, seed);
      before = seed;
    }
    EXPECT_GE(prefixes, 2000U);
    RecordProperty("prefixes", static_cast<int>(prefixes));
    std::printf("%zu prefixes, %lld ranks\n", prefixes, static_cast<long long>(ranks));
  }
}

TEST_F(FaultyCheckpoints, EveryCallThatFailsLeavesOneThatLoadsAndOneLine) {
  save(1, 11);
  std::size_t calls = 0;
  {
    const Watch watch(root_);
    save(2, 12);
    calls = watch.calls();
  }
  ASSERT_GE(calls, 20U);
  for (const int error : {ENOSPC, EIO}) {
    for (std::size_t call = 0; call < calls; ++call) {
      fs::remove_all(folder());
      fs::create_directory(folder());
      save(1, 11);
      std::string line;
      {
        Watch watch(root_);
        watch.fail(call, error);
        try {
          save(2, 12);
        } catch (const Error& caught) {
          line = caught.what();
        }
      }
      EXPECT_EQ(line.find('\n'), std::string::npos) << line;
      const std::uint64_t seed = load(folder());
      EXPECT_TRUE(seed == 11 || seed == 12) << "call " << call << ": " << line;
      EXPECT_FALSE(line.empty() && seed == 11) << "call " << call << " was lost in silence";
      // What was left half-written does not stop the next one.
      EXPECT_NO_THROW(save(3, 13)) << "after call " << call;
      EXPECT_EQ(load(folder()), 13U) << "after call " << call;
    }
  }
}

TEST_F(FaultyCheckpoints, SignalsAndShortWritesChangeNothing) {
  save(1, 11);
  std::size_t calls = 0;
  {
    const Watch watch(root_);
    save(2, 12);
    calls = watch.calls();
  }
  for (std::size_t call = 0; call < calls; ++call) {
    Watch watch(root_);
    watch.fail(call, EINTR);
    try {
      save(2, 20 + call);
    } catch (const Error&) {
      // Calls on names are not what a signal interrupts; the old one stays where one is made to
      // fail.
      EXPECT_GE(load(folder()), 11U);
      continue;
    }
    EXPECT_EQ(load(folder()), 20 + call);
  }
  Watch watch(root_);
  watch.move_at_most(13);
  save(4, 14);
  EXPECT_EQ(load(folder()), 14U);
}

}  // namespace
}  // namespace trireme::runtime
