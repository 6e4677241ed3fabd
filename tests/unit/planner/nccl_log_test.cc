// Terminal logs of nccl-tests as users keep them, written by hand for the column variants.
#include "planner/calibrate/nccl_log.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "planner/calibrate/measurement_file.h"
#include "topologies/collective_cost.h"

namespace trireme::planner {
namespace {

constexpr const char* kTwoTools =
    R"(+ mpirun -np 2 -x NCCL_DEBUG=INFO ./build/all_reduce_perf -b 1M -e 4M -f 2 -g 1
# nThread 1 nGpus 1 minBytes 1048576 maxBytes 4194304 step: 2(factor) warmup iters: 5 iters: 20
#
# Using devices
#  Rank  0 Group  0 Pid   4711 on     node-a device  0 [0000:18:00] NVIDIA H100 80GB HBM3
#  Rank  1 Group  0 Pid   4712 on     node-b device  0 [0000:2a:00] NVIDIA H100 80GB HBM3
node-a:4711:4711 [0] NCCL INFO Bootstrap: Using eth0
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
     1048576        262144     float     sum      -1    50.00   20.97   20.97      0    49.50   21.18   21.18      0
node-a:4711:4799 [0] NCCL INFO AllReduce: opCount 3 sendbuff 0x7f
     2097152        524288     float     sum      -1    80.00   26.21   26.21      0    79.10   26.51   26.51    N/A
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 23.7
./build/alltoall_perf -b 8M
# nThread 1 nGpus 2 minBytes 8388608
#  Rank  0 Pid   9 on  node-a device  0 [0x18] NVIDIA H100 80GB HBM3
#  Rank  1 Pid   9 on  node-a device  1 [0x2a] NVIDIA H100 80GB HBM3
#       size         count      type    time   algbw   busbw  error     time   algbw   busbw  error
#        (B)    (elements)              (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
     8388608       1048576     float   1e+02   83.89   41.94  0e+00   101.0   83.06   41.53    N/A
)";

TEST(NcclLog, ReadsSeveralToolsOfOneLog) {
  const std::vector<NcclLogTable> tables = parse_nccl_log(kTwoTools, "log.txt");
  ASSERT_EQ(tables.size(), 2U);
  EXPECT_EQ(tables[0].operation, "all_reduce");
  EXPECT_EQ(tables[0].ranks, 2);
  EXPECT_EQ(tables[0].hosts, 2);
  EXPECT_EQ(tables[0].gpu, "NVIDIA H100 80GB HBM3");
  ASSERT_EQ(tables[0].rows.size(), 2U);
  EXPECT_EQ(tables[0].rows[1].bytes, 2097152);
  EXPECT_DOUBLE_EQ(tables[0].rows[1].seconds, 80e-6);
  EXPECT_DOUBLE_EQ(tables[0].rows[1].bus_gbytes_per_second, 26.21);
  EXPECT_DOUBLE_EQ(tables[0].rows[1].in_place_seconds, 79.1e-6);
  EXPECT_EQ(tables[1].operation, "all_to_all");
  EXPECT_EQ(tables[1].hosts, 1);
  ASSERT_EQ(tables[1].rows.size(), 1U);
  EXPECT_DOUBLE_EQ(tables[1].rows[0].seconds, 1e-4);
}

TEST(NcclLog, ItsOwnBusBandwidthFollowsFromSizeAndTime) {
  for (const NcclLogTable& table : parse_nccl_log(kTwoTools, "log.txt")) {
    const auto collective = table.operation == "all_reduce" ? topologies::Collective::kAllReduce
                                                            : topologies::Collective::kAllToAll;
    for (const NcclLogRow& row : table.rows) {
      const double bus = static_cast<double>(row.bytes) / row.seconds * 1e-9 *
                         topologies::bus_bandwidth_factor(collective, table.ranks);
      EXPECT_NEAR(bus / row.bus_gbytes_per_second, 1, 1e-3);
    }
  }
}

TEST(NcclLog, ReadsLaunchersPrefixesBlankColumnsAndMilliseconds) {
  const auto tagged = parse_nccl_log(
      "[1,0]<stdout>:# Collective test starting: reduce_scatter_perf\r\n"
      "[1,0]<stdout>:#       size  count  type  redop  root  time  algbw  busbw #wrong\r\n"
      "[1,0]<stdout>:#  (B) (elements) (ms) (GB/s) (GB/s)\r\n"
      "[1,0]<stdout>:  67108864 16777216 float sum -1 1.5 44.7 39.1 0\r\n"
      "[1,0]<stdout>:  134217728 33554432 float 2.5 53.7 47.0 0\r\n",
      "tagged");
  ASSERT_EQ(tagged.size(), 1U);
  EXPECT_EQ(tagged[0].operation, "reduce_scatter");
  ASSERT_EQ(tagged[0].rows.size(), 2U);
  EXPECT_DOUBLE_EQ(tagged[0].rows[0].seconds, 1.5e-3);
  EXPECT_DOUBLE_EQ(tagged[0].rows[1].seconds, 2.5e-3);
  const auto labelled = parse_nccl_log("0: # size time busbw\n0: 1024 9.5 0.1\n", "labelled");
  EXPECT_EQ(labelled[0].operation, "");
  EXPECT_EQ(labelled[0].ranks, 0);
}

TEST(NcclLog, WhatIsNoLogIsAnErrorWithItsLine) {
  EXPECT_THROW(parse_nccl_log("", "x"), Error);
  EXPECT_THROW(parse_nccl_log("hello\n1 2 3\n", "x"), Error);
  EXPECT_THROW(parse_nccl_log("# size time busbw\n", "x"), Error);
  try {
    parse_nccl_log("# size time busbw\n1024 fast 0.1\n", "x");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("x:2"), std::string::npos);
  }
}

constexpr const char* kHeader =
    "#       size         count      type   redop    root     time   algbw   busbw #wrong\n";

TEST(NcclLog, LabelsBeforeEachLineArePassedOver) {
  for (const std::string label : {"node-a: ", "[pod-0] ", "2025-03-01T10:00:00Z ", "host1: [1] "}) {
    const auto tables =
        parse_nccl_log(label + "# nThread 1 all_reduce_perf\n" + label + kHeader + label +
                           " 1048576  262144  float  sum  -1  50.00  20.97  20.97  0\n",
                       "log.txt");
    ASSERT_EQ(tables.size(), 1U) << label;
    EXPECT_DOUBLE_EQ(tables[0].rows.at(0).seconds, 50e-6) << label;
  }
}

TEST(NcclLog, HostTimesAreReadAndMarked) {
  const auto tables = parse_nccl_log(
      "#  size  count  type  redop  root  cputime  algbw  busbw #wrong\n"
      "1048576 262144 float sum -1 9.00 1.0 1.0 0\n",
      "log.txt");
  ASSERT_EQ(tables.size(), 1U);
  EXPECT_TRUE(tables[0].host_times);
  EXPECT_DOUBLE_EQ(tables[0].rows.at(0).seconds, 9e-6);
}

TEST(NcclLog, FailedDataChecksAreRefusedWithTheirLine) {
  const auto message = [](const std::string& text) -> std::string {
    try {
      parse_nccl_log(text, "log.txt");
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(message(std::string(kHeader) + "1048576 262144 float sum -1 50.00 20.97 20.97 12\n")
                .find("log.txt:2"),
            std::string::npos);
  EXPECT_NE(message(std::string(kHeader) + "1048576 262144 float sum -1 50.00 20.97 20.97 N/A\n" +
                    "# Out of bounds values : 5 FAILED\n")
                .find("log.txt:3"),
            std::string::npos);
}

MeasurementHints hints_of(const std::string& cluster) {
  MeasurementHints hints;
  hints.cluster = topologies::load_cluster(cluster);
  hints.operation = "all_reduce";
  return hints;
}

TEST(MeasurementFiles, WhatNcclTestsWritesAsJson) {
  const std::string text = R"({"version": 3, "args": ["./all_gather_perf", "-J", "o.json"],
    "config": {"devices": [{"rank": 0, "host": "a", "device_info": "NVIDIA H100 80GB HBM3"},
                           {"rank": 1, "host": "a", "device_info": "NVIDIA H100 80GB HBM3"}]},
    "results": [{"size": 1048576, "out_of_place": {"time": 33.0, "alg_bw": 31.8, "bus_bw": 15.9, "nwrong": 0},
                 "in_place": {"time": 32.0, "alg_bw": 32.8, "bus_bw": 16.4, "nwrong": 0}}]})";
  const MeasurementFile file = parse_measurements(text, "o.json", hints_of("dgx-h100"));
  ASSERT_EQ(file.tables.size(), 1U);
  EXPECT_EQ(file.tables[0].operation, "all_gather");
  EXPECT_EQ(file.tables[0].ranks, 2);
  EXPECT_DOUBLE_EQ(file.tables[0].rows.at(0).seconds, 33e-6);
  EXPECT_DOUBLE_EQ(file.tables[0].rows.at(0).in_place_seconds, 32e-6);
  std::string wrong = text;
  wrong.replace(wrong.find("\"nwrong\": 0"), 11, "\"nwrong\": 7");
  EXPECT_THROW(parse_measurements(wrong, "o.json", hints_of("dgx-h100")), Error);
}

TEST(MeasurementFiles, AnotherCardsLogIsRefusedUnlessToldSo) {
  MeasurementHints hints = hints_of("dgx-a100-80gb");
  EXPECT_THROW(parse_measurements(kTwoTools, "log.txt", hints), Error);
  hints.other_card = true;
  EXPECT_FALSE(parse_measurements(kTwoTools, "log.txt", hints).tables.empty());
}

// rccl-tests with -Z csv and -Z json: out of place and in place are rows of their own.
TEST(NcclLog, ReadsWhatRcclTestsWrites) {
  const std::string csv =
      "numCycle,name,nodes,ranks,ranksPerNode,gpusPerRank,size,type,redop,inPlace,time,algBw,busBw,"
      "wrong\n"
      "1,AllReduce,2,16,8,1,1048576,float,sum,0,50.0,20.97,39.3,0\n"
      "1,AllReduce,2,16,8,1,1048576,float,sum,1,49.0,21.4,40.1,0\n"
      "1,AllReduce,2,16,8,1,2097152,float,sum,0,80.0,26.2,49.1,0\n";
  MeasurementHints hints;
  hints.cluster = topologies::load_cluster("mi300xx2");
  const MeasurementFile file = parse_measurements(csv, "run.csv", hints);
  ASSERT_EQ(file.collectives.size(), 1U);
  EXPECT_EQ(file.collectives[0].collective, topologies::Collective::kAllReduce);
  EXPECT_EQ(file.collectives[0].group.ranks, 16);
  EXPECT_EQ(file.collectives[0].group.ranks_per_node, 8);
  ASSERT_EQ(file.collectives[0].points.size(), 2U);
  EXPECT_DOUBLE_EQ(file.collectives[0].points[1].seconds, 80e-6);
  const std::string json =
      R"([{"numCycle": 1, "name": "all_gather_perf", "size": 1024, "type": "float", "redop": "none",
           "inPlace": 1, "time": 12.5, "algBw": 0.08, "busBw": 0.07, "wrong": "0"}])";
  const MeasurementFile gathered = parse_measurements(json, "run.json", hints);
  ASSERT_EQ(gathered.collectives.size(), 1U);
  EXPECT_EQ(gathered.collectives[0].collective, topologies::Collective::kAllGather);
  EXPECT_EQ(gathered.collectives[0].group.ranks, 16);  // the cluster's: the file names none
  EXPECT_THROW(
      parse_measurements(csv + "1,AllReduce,2,16,8,1,4096,float,sum,0,9.0,1,1,3\n", "a", hints),
      Error);
  EXPECT_THROW(  // a bandwidth of nan was taken
      parse_measurements(csv + "1,AllReduce,2,16,8,1,4096,float,sum,0,9.0,1,nan,0\n", "a", hints),
      Error);
}

}  // namespace
}  // namespace trireme::planner
