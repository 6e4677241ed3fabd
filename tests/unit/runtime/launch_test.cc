#include "runtime/launch.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <map>

#include "core/error.h"
#include "tests/unit/message_of.h"
#include "tests/unit/runtime/never.h"

namespace trireme::runtime {
namespace {

// A time-out that ends nothing here: a wait that only it would end fails the test by the runner's.

using Variables = std::map<std::string, std::string>;

std::optional<RankEnvironment> environment_of(const Variables& variables) {
  return rank_environment([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

TEST(RankEnvironment, ReadsEveryLauncher) {
  EXPECT_FALSE(environment_of({}).has_value());
  EXPECT_FALSE(environment_of({{"MASTER_PORT", "1234"}}).has_value());
  const auto torchrun = environment_of({{"RANK", "5"},
                                        {"WORLD_SIZE", "8"},
                                        {"LOCAL_RANK", "1"},
                                        {"MASTER_ADDR", "n0"},
                                        {"MASTER_PORT", "1234"}});
  ASSERT_TRUE(torchrun.has_value());
  EXPECT_EQ(torchrun->rank, Rank(5));
  EXPECT_EQ(torchrun->ranks, 8);
  EXPECT_EQ(torchrun->local_rank, 1);
  EXPECT_EQ(torchrun->master.host, "n0");
  EXPECT_EQ(torchrun->master.port, 1234);
  const auto slurm = environment_of({{"SLURM_PROCID", "3"},
                                     {"SLURM_NTASKS", "4"},
                                     {"SLURM_LOCALID", "0"},
                                     {"SLURM_STEP_NODELIST", "gpu[003-010,12],cpu1"}});
  ASSERT_TRUE(slurm.has_value());
  EXPECT_EQ(slurm->master.host, "gpu003");
  EXPECT_EQ(slurm->launcher, "srun");
  const auto mpi = environment_of({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "2"}});
  ASSERT_TRUE(mpi.has_value());
  EXPECT_EQ(mpi->ranks, 2);
  // --mpi=pmi2: its local rank was taken for the rank, and on the second host there is no such GPU
  const auto pmi2 = environment_of({{"PMI_RANK", "9"},
                                    {"PMI_SIZE", "16"},
                                    {"SLURM_PROCID", "9"},
                                    {"SLURM_NTASKS", "16"},
                                    {"SLURM_LOCALID", "1"},
                                    {"SLURM_STEP_NODELIST", "gpu[1-2]"}});
  EXPECT_EQ(pmi2->launcher, "srun");
  EXPECT_EQ(pmi2->local_rank, 1);
  EXPECT_EQ(pmi2->master.host, "gpu1");
  const auto agent = environment_of({{"RANK", "0"},
                                     {"WORLD_SIZE", "1"},
                                     {"MASTER_PORT", "1234"},
                                     {"TORCHELASTIC_USE_AGENT_STORE", "True"}});
  EXPECT_EQ(agent->master.port, 1235);
}

TEST(RankEnvironment, RefusesHalfASetAndNonsense) {
  EXPECT_NE(message_of([] {
              environment_of({{"RANK", "0"}});
            }).find("WORLD_SIZE"),
            std::string::npos);
  EXPECT_NE(message_of([] {
              environment_of({{"RANK", "2"}, {"WORLD_SIZE", "2"}});
            }).find("not below"),
            std::string::npos);
  EXPECT_NE(message_of([] {
              environment_of({{"RANK", "x"}, {"WORLD_SIZE", "2"}});
            }).find("whole number"),
            std::string::npos);
}

// Ranks of other hosts asked at their own loopback until the time-out.
TEST(RankEnvironment, SaysWhereRank0IsOrThatNobodySaidSo) {
  Variables mpi = {{"OMPI_COMM_WORLD_RANK", "3"},
                   {"OMPI_COMM_WORLD_SIZE", "4"},
                   {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                   {"SLURM_STEP_NODELIST", "its-daemons-step"}};
  const std::string message = message_of([&] { environment_of(mpi); });
  EXPECT_NE(message.find("MASTER_ADDR: is missing: 2 of 4 ranks are on this host"),
            std::string::npos)
      << message;
  mpi["MASTER_ADDR"] = "n0";
  EXPECT_EQ(environment_of(mpi)->master.host, "n0");
  mpi.erase("MASTER_ADDR");
  mpi["OMPI_COMM_WORLD_LOCAL_SIZE"] = "4";
  EXPECT_EQ(environment_of(mpi)->master.host, "127.0.0.1");
  // A node's name need not be known to itself.
  Variables slurm = {{"SLURM_PROCID", "1"},           {"SLURM_NTASKS", "2"},
                     {"SLURM_STEP_NODELIST", "gpu7"}, {"SLURM_STEP_NUM_NODES", "1"},
                     {"SLURM_JOB_ID", "12"},          {"SLURM_STEP_ID", "3"}};
  EXPECT_EQ(environment_of(slurm)->master.host, "127.0.0.1");
  EXPECT_EQ(environment_of(slurm)->master.job, "12.3");
}

TEST(FirstHost, ReadsSlurmLists) {
  EXPECT_EQ(first_host("a,b"), "a");
  EXPECT_EQ(first_host("gpu[07,09]"), "gpu07");
  EXPECT_EQ(first_host("a1,gpu[07,09]"), "a1");
  EXPECT_EQ(first_host("node12"), "node12");
}

TEST(LocalProcesses, GatherAndEnd) {
  OpBoard board(3);
  std::string reported;
  const int code = run_local_processes(
      3, board,
      [](const RankEnvironment& environment) {
        const auto coordinator = make_store_coordinator(environment, kNever);
        const auto all = coordinator->gather(std::to_string(index_of(environment.rank)));
        const std::string word =
            coordinator->broadcast(all.empty() ? "" : all[0] + all[1] + all[2]);
        return word == "012" ? 0 : 1;
      },
      [](Rank, OpId) { return std::string("op"); },
      [&](const std::string& line) { reported += line; });
  EXPECT_EQ(code, 0);
  EXPECT_EQ(reported, "");
}

TEST(LocalProcesses, AKilledRankEndsTheOthersAndNamesTheOps) {
  OpBoard board(2);
  std::string reported;
  const int code = run_local_processes(
      2, board,
      [&](const RankEnvironment& environment) {
        const auto coordinator = make_store_coordinator(environment, kNever);
        board.set(environment.rank, OpId(10 + index_of(environment.rank)));
        coordinator->barrier();
        if (environment.rank == Rank(1)) {
          ::kill(::getpid(), SIGKILL);
        }
        coordinator->barrier();
        return 0;
      },
      [](Rank, OpId op) { return "op " + std::to_string(index_of(op)); },
      [&](const std::string& line) { reported += line + "\n"; });
  EXPECT_NE(code, 0);
  EXPECT_NE(reported.find("rank 1 was ended by signal 9 (Killed) in op 11; rank 0 was in op 10"),
            std::string::npos)
      << reported;
}

TEST(LocalProcesses, ARankThatThrowsEndsTheOthersBeforeTheTimeOut) {
  for (const Rank culprit : {Rank(0), Rank(1)}) {
    OpBoard board(2);
    const int code = run_local_processes(
        2, board,
        [&](const RankEnvironment& environment) {
          const auto coordinator = make_store_coordinator(environment, kNever);
          coordinator->barrier();
          if (environment.rank == culprit) {
            throw Error("test", "fails", ErrorKind::kMissingMachine);
          }
          coordinator->barrier();
          return 0;
        },
        [](Rank, OpId) { return std::string("op"); }, [](const std::string&) {});
    EXPECT_NE(code, 0);
  }
}

}  // namespace
}  // namespace trireme::runtime
