#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <vector>

#include "tests/unit/tools/command.h"
#include "tools/budget_offers.h"
#include "tools/program.h"

namespace trireme::tools {
namespace {

Answer ask(const std::vector<std::string>& arguments) {
  return run_command(arguments);
}

const std::vector<std::string> kJob = {"budget",   "--model", "llama-3.1-8b", "--seq", "4096",
                                       "--trials", "200",     "--tokens",     "20B"};

std::vector<std::string> with(std::vector<std::string> more) {
  std::vector<std::string> all = kJob;
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

TEST(Budget, AnswersEveryOfferWithIntervals) {
  const Answer answer =
      ask(with({"--offer", "dgx-h100x4=2.5", "--offer", "dgx-a100-80gbx4=1.2", "--json"}));
  ASSERT_EQ(answer.code, kDone) << answer.err;
  const auto json = nlohmann::json::parse(answer.out);
  EXPECT_EQ(json["schema"], "trireme.budget/1");
  ASSERT_EQ(json["offers"].size(), 2U);
  for (const auto& offer : json["offers"]) {
    const double days = offer["days"]["value"];
    EXPECT_LT(offer["days"]["low"].get<double>(), days);
    EXPECT_GT(offer["days"]["high"].get<double>(), days);
    EXPECT_NEAR(offer["gpu_hours"].get<double>(), days * 24 * 32, 1e-6 * days * 24 * 32);
    EXPECT_NEAR(offer["dollars"]["value"].get<double>(),
                offer["gpu_hours"].get<double>() * offer["dollars_per_gpu_hour"].get<double>(),
                1e-6 * offer["dollars"]["value"].get<double>());
    EXPECT_GT(offer["goodput"].get<double>(), 0.9);
    EXPECT_GT(offer["energy_kwh"].get<double>(), 0);
  }
  EXPECT_EQ(json["fastest_within_dollars"], "dgx-h100x4");
}

TEST(Budget, OffersOfTheSameGpusCannotBeToldApart) {
  const Answer answer = ask(with({"--offer", "dgx-h100x2=2.5", "--offer", "aws-p5x2=2.5", "--offer",
                                  "rtx4090x2=9", "--json"}));
  const auto json = nlohmann::json::parse(answer.out);
  bool found = false;
  for (const auto& pair : json["indistinguishable"]) {
    found = found || (pair[0] == "dgx-h100x2" && pair[1] == "aws-p5x2");
    EXPECT_NE(pair[1], "rtx4090x2");
  }
  EXPECT_TRUE(found) << answer.out;
  const Answer words = ask(with({"--offer", "dgx-h100x2=2.5", "--offer", "aws-p5x2=2.5"}));
  EXPECT_NE(words.out.find("calibrate --from-run"), std::string::npos) << words.out;
}

// 38 days stood there, and 187 without spare nodes were not told.
TEST(Budget, WhatSparesAreWorthIsSaidWhereFreeReplacementDecides) {
  const std::vector<std::string> often = {"--offer", "dgx-h100x32=2.5", "--mtbf", "6h"};
  const Answer words = ask(with(often));
  EXPECT_NE(words.out.find("what spares are worth: "), std::string::npos) << words.out;
  EXPECT_NE(words.out.find("run by trireme"), std::string::npos) << words.out;
  std::vector<std::string> json_words = often;
  json_words.emplace_back("--json");
  const auto worth = nlohmann::json::parse(ask(with(json_words)).out)["offers"][0];
  ASSERT_TRUE(worth.contains("spares_worth")) << worth;
  EXPECT_GT(worth["spares_worth"]["days_without"], 1.05 * worth["days"]["value"].get<double>());
  json_words.insert(json_words.end(), {"--spares", "0"});
  const auto none = nlohmann::json::parse(ask(with(json_words)).out)["offers"][0];
  EXPECT_NEAR(
      none["days"]["value"].get<double>() / worth["spares_worth"]["days_without"].get<double>(), 1,
      0.05);
  EXPECT_FALSE(none.contains("spares_worth"));
  const Answer seldom = ask(with({"--offer", "dgx-h100x1=2.5", "--failures", "none"}));
  EXPECT_EQ(seldom.out.find("what spares are worth"), std::string::npos) << seldom.out;
}

// One machine at 2.50 and at 2.60 dollars "could not be told apart".
TEST(Budget, OneMachineAtTwoPricesIsToldApart) {
  const Answer answer =
      ask(with({"--offer", "dgx-h100x2=2.50", "--offer", "dgx-h100x2=2.60", "--json"}));
  EXPECT_TRUE(nlohmann::json::parse(answer.out)["indistinguishable"].empty()) << answer.out;
}

// The JSON named the published rate beside a time between failures that was asked for, and the page
// cards of the first offer alone, no price and no batch.
TEST(Budget, WhatWasAskedOfFailuresIsWhatIsNamed) {
  const Answer asked = ask(with({"--offer", "dgx-h100x4=2", "--mtbf", "6h", "--json"}));
  const nlohmann::json rate = nlohmann::json::parse(asked.out)["failure_rate"];
  EXPECT_EQ(rate["name"], "mtbf");
  EXPECT_TRUE(rate["per_1000_node_days"].is_null()) << rate;
  const Answer none = ask(with({"--offer", "dgx-h100x4=2", "--failures", "none"}));
  EXPECT_NE((none.out + none.err).find("no failures ("), std::string::npos) << none.out << none.err;
}

// Eight spare nodes beside 32 cost nothing.
TEST(Budget, SpareNodesArePaidFor) {
  const auto hours_a_day = [](const char* spares) {
    const Answer answer = ask(with({"--offer", "dgx-h100x4=2", "--spares", spares, "--json"}));
    const auto offer = nlohmann::json::parse(answer.out)["offers"][0];
    return offer["gpu_hours"].get<double>() / offer["days"]["value"].get<double>();
  };
  EXPECT_NEAR(hours_a_day("2"), 24.0 * 8 * 6, 1e-6);
  EXPECT_NEAR(hours_a_day("0"), 24.0 * 8 * 4, 1e-6);
}

// Eight spare nodes were named where seven cost less.
TEST(Budget, TheSparesThatAreNamedAreTheCheapest) {
  const std::vector<std::string> offer = {"--offer", "dgx-h100x32=2.5", "--mtbf", "3h"};
  const auto answered = [&](std::vector<std::string> more) {
    more.insert(more.begin(), offer.begin(), offer.end());
    more.emplace_back("--json");
    return nlohmann::json::parse(ask(with(more)).out)["offers"][0];
  };
  const auto free = answered({});
  ASSERT_TRUE(free.contains("spares_worth")) << free;
  const auto& worth = free["spares_worth"];
  const std::int64_t named = worth["spares"];
  for (std::int64_t spares = std::max<std::int64_t>(0, named - 3); spares <= named + 1; ++spares) {
    const auto other = answered({"--spares", std::to_string(spares)});
    EXPECT_EQ(other["spare_gpus"], 8 * spares);
    const bool enough = other["days"]["value"] <= 1.05 * free["days"]["value"].get<double>();
    EXPECT_TRUE(!enough || other["dollars"]["value"] >= worth["dollars"].get<double>() * 0.9999)
        << spares << " beside " << worth << other["dollars"];
  }
}

// Spare nodes were paid for and not among the GPUs.
TEST(Budget, SpareGpusStandBesideThoseThatRun) {
  const Answer words = ask(with({"--offer", "dgx-h100x4=2", "--spares", "2"}));
  EXPECT_NE(words.out.find(" 32 + 16 "), std::string::npos) << words.out;
}

TEST(Budget, ADeadlineThatNothingMeetsIsANo) {
  const Answer answer = ask(with({"--offer", "dgx-h100=2.5", "--deadline", "1h"}));
  EXPECT_EQ(answer.code, kAnswerIsNo);
}

TEST(Budget, MoreFailuresCostMore) {
  const auto days = [](const char* between) {
    const Answer answer = ask(with({"--offer", "dgx-h100x4=2", "--mtbf", between, "--json"}));
    return nlohmann::json::parse(answer.out)["offers"][0]["days"]["value"].get<double>();
  };
  EXPECT_LT(days("48h"), days("6h"));
  EXPECT_LT(days("6h"), days("1h"));
}

TEST(Budget, WrongWordsAreOneLineAndCodeTwo) {
  for (const std::vector<std::string>& more : {std::vector<std::string>{},
                                               {"--offer", "dgx-h100", "--max-dollars", "1M"},
                                               {"--offer", "dgx-h100=2,spot=1"},
                                               {"--offer", "dgx-h100=cheap"},
                                               {"--offer", "dgx-h100=2,lost=1"},
                                               {"--offer", "dgx-h100=2", "--mtbf", "often"},
                                               {"--offer", "dgx-h100=2", "--failures", "many"},
                                               {"--offer", "moon=2"}}) {
    const Answer answer = ask(with(more));
    EXPECT_EQ(answer.code, kWrongInput);
    EXPECT_EQ(std::count(answer.err.begin(), answer.err.end(), '\n'), 1) << answer.err;
  }
}

// `plan` said what a batch costs that the GPUs do not divide; 9 % of an offer's dollars were not
// told.
TEST(Budget, ABatchThatAnOffersGpusDoNotDivideIsSaid) {
  const std::vector<std::string> job = {"--global-batch", "64",      "--offer",
                                        "dgx-h100x2=2.5", "--offer", "dgx-h100x3=2.5"};
  std::vector<std::string> json_job = job;
  json_job.emplace_back("--json");
  const auto offers = nlohmann::json::parse(ask(with(json_job)).out)["offers"];
  EXPECT_TRUE(offers[0]["remarks"].empty()) << offers[0];
  ASSERT_FALSE(offers[1]["remarks"].empty()) << offers[1];
  const std::string said = offers[1]["remarks"][0];
  EXPECT_NE(said.find("batch 64 divides badly"), std::string::npos) << said;
  EXPECT_NE(ask(with(job)).out.find("dgx-h100x3: " + said), std::string::npos);
}

// The batch changed with the set of offers, without a word.
TEST(Budget, TheAssumedBatchIsSaid) {
  const char* words = "the batch is assumed, one for all offers";
  EXPECT_NE(ask(with({"--offer", "dgx-h100x1=2"})).out.find(words), std::string::npos);
  EXPECT_EQ(ask(with({"--offer", "dgx-h100x1=2", "--global-batch", "64"})).out.find(words),
            std::string::npos);
}

// Eight times the GPUs at the same dollars: half of the advice was missing.
TEST(Budget, TheFastestOfThoseThatCostTheSameIsNamed) {
  const std::vector<std::string> offers = {"--offer", "dgx-h100x1=2.5", "--offer",
                                           "dgx-h100x8=2.5"};
  std::vector<std::string> json_offers = offers;
  json_offers.emplace_back("--json");
  const auto json = nlohmann::json::parse(ask(with(json_offers)).out);
  ASSERT_EQ(json["indistinguishable"].size(), 1U);
  EXPECT_EQ(json["fastest_indistinguishable"], "dgx-h100x8");
  EXPECT_NE(ask(with(offers)).out.find("else take dgx-h100x8, whose time can be told apart"),
            std::string::npos);
  const auto same = nlohmann::json::parse(
      ask(with({"--offer", "dgx-h100x2=2.5", "--offer", "aws-p5x2=2.5", "--json"})).out);
  EXPECT_TRUE(same["fastest_indistinguishable"].is_null());
}

// 64..96 tried 64 alone, and said from it that more nodes still pay.
TEST(Budget, ARangeTriesItsEndAndOneSizeHasNoKnee) {
  const std::vector<Offer> offers = parse_offers("dgx-h100x2..3=2.5");
  ASSERT_EQ(offers.size(), 2U);
  EXPECT_EQ(offers[1].name, "dgx-h100x3");
  EXPECT_EQ(parse_offers("dgx-h100x2..8=2.5").size(), 3U);
  const std::string one = ask(with({"--offer", "dgx-h100x1..1=2.5"})).out;
  EXPECT_NE(one.find("8 GPUs alone could be tried"), std::string::npos) << one;
  EXPECT_EQ(one.find("still pay"), std::string::npos) << one;
  const std::string two = ask(with({"--offer", "dgx-h100x1..2=2.5"})).out;
  EXPECT_NE(two.find("no knee among 8, 16 GPUs"), std::string::npos) << two;
}

// The manual promised days without prices, and an offer without one was refused.
TEST(Budget, WithoutPricesThereAreDaysAlone) {
  const Answer words = ask(with({"--offer", "dgx-h100x1", "--spares", "1"}));
  EXPECT_EQ(words.code, kDone) << words.err;
  EXPECT_EQ(words.out.find('$'), std::string::npos) << words.out;
  EXPECT_NE(words.out.find("1 spare node, paid for"), std::string::npos) << words.out;
}

// A run of half a day was "0.5" days, and one of an hour "0.0".
TEST(Budget, RunsShorterThanADayAreToldInHours) {
  const Answer words = ask({"budget", "--model", "gpt2", "--tokens", "5B", "--trials", "100",
                            "--offer", "dgx-h100x1=2"});
  EXPECT_TRUE(std::regex_search(words.out, std::regex(" [0-9.]+ (h|min) \\("))) << words.out;
}

TEST(Budget, AWordBehindThePriceIsAnsweredWithTheSuffixThatExists) {
  for (const char* offer : {"dgx-h100=2,spot=1", "dgx-h100=spot"}) {
    const Answer answer = ask(with({"--offer", offer}));
    EXPECT_NE(answer.err.find(",loss=RATE"), std::string::npos) << answer.err;
  }
}

// Offers that differ by their nodes alone: speed-up and efficiency by hand from their days.
TEST(Budget, OffersOfSeveralSizesScale) {
  const nlohmann::json json = nlohmann::json::parse(
      ask(with({"--offer", "dgx-h100x2..8=2.5", "--offer", "dgx-h100x1=2.5", "--json"})).out);
  ASSERT_EQ(json["offers"].size(), 4U);
  ASSERT_EQ(json["scaling"].size(), 1U);
  const auto& scaling = json["scaling"][0];
  EXPECT_EQ(scaling["offers"], "dgx-h100x2..8");
  ASSERT_EQ(scaling["points"].size(), 3U);
  const auto days = [&](std::size_t at) {
    return json["offers"][at]["days"]["value"].get<double>();
  };
  for (std::size_t i = 0; i < 3; ++i) {
    const auto& point = scaling["points"][i];
    EXPECT_EQ(point["gpus"], 16 << i);
    EXPECT_NEAR(point["speedup"].get<double>(), days(0) / days(i), 1e-9);
    EXPECT_NEAR(point["efficiency"].get<double>(), days(0) / days(i) / (1 << i), 1e-9);
  }
  EXPECT_EQ(ask(with({"--offer", "dgx-h100x8..2=2.5"})).code, kWrongInput);
  const std::vector<Offer> file = parse_offers("nexus/../topology.json=2.5");  // two dots of a path
  ASSERT_EQ(file.size(), 1U);
  EXPECT_EQ(file[0].name, "nexus/../topology.json");
  EXPECT_EQ(file[0].family, "");
  EXPECT_EQ(ask(with({"--offer", "dgx-h100x2..=2.5"})).code, kWrongInput);
}

// A page asks nobody for anything, and holds every section.
TEST(Pages, AreWholeInOneFile) {
  const auto path = std::filesystem::temp_directory_path() / "trireme_budget_page.html";
  const std::vector<std::vector<std::string>> commands = {
      with({"--offer", "dgx-h100x2=2.5"}),
      {"estimate", "--model", "llama-3.1-8b", "--cluster", "dgx-h100", "--sharding", "full"},
      {"plan", "--model", "llama-3.1-8b", "--cluster", "dgx-h100"},
      {"whatif", "--model", "llama-3.1-8b", "--cluster", "dgx-h100", "--vary", "seq=2048,8192",
       "--scaling", "4,8,16"}};
  for (std::vector<std::string> command : commands) {
    command.insert(command.end(), {"--report", path.string()});
    EXPECT_NE(ask(command).code, kWrongInput);
    std::ifstream in(path);
    const std::string page((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    EXPECT_NE(page.find("Where the numbers come from"), std::string::npos) << command[0];
    EXPECT_NE(page.find("class=\"bars\""), std::string::npos) << command[0];
    EXPECT_FALSE(std::regex_search(page, std::regex("(src|href)=\"?(https?:|//)"))) << command[0];
    EXPECT_EQ(page.find("<script"), std::string::npos);  // nothing in it moves
    EXPECT_LT(page.size(), 3U << 20U);
    std::filesystem::remove(path);
  }
}

TEST(Estimate, AdaptersAndOffloadAreOptions) {
  const std::vector<std::string> base = {
      "estimate", "--model",     "llama-3.1-8b", "--cluster",   "dgx-a100-80gb", "--gpus",
      "1",        "--framework", "fsdp1",        "--recompute", "full",          "--json"};
  const auto memory = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = base;
    all.insert(all.end(), more.begin(), more.end());
    return nlohmann::json::parse(ask(all).out)["memory"]["peak_allocated_gib"].get<double>();
  };
  EXPECT_GT(memory({}), 80);
  EXPECT_LT(memory({"--lora-rank", "16"}), 30);
  EXPECT_LT(memory({"--lora-rank", "16", "--base", "nf4-double"}), 18);
  EXPECT_LT(memory({"--offload", "optimizer,gradients,parameters"}), 25);
  for (const std::vector<std::string>& more : {std::vector<std::string>{"--base", "nf4"},
                                               {"--freeze-layers", "32"},
                                               {"--lora-rank", "8", "--lora-targets", "weather"},
                                               {"--offload", "everything"},
                                               {"--batching", "padded"},
                                               {"--lengths", "/nowhere"}}) {
    std::vector<std::string> all = base;
    all.insert(all.end(), more.begin(), more.end());
    EXPECT_EQ(ask(all).code, kWrongInput);
  }
}

}  // namespace
}  // namespace trireme::tools
