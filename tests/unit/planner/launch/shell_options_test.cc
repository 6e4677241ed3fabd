// Options that a script takes from its own words.
#include <gtest/gtest.h>

#include "planner/launch/launch_command.h"
#include "planner/shell/script.h"

namespace trireme::planner {
namespace {

std::string last(const std::string& text, std::vector<std::string> words = {}) {
  const ShellScript script = read_shell(text, "run.sh", {.words = std::move(words)});
  std::string all;
  for (const ShellText& word : script.commands.back().words) {
    all += (all.empty() ? "" : "|") + word.text;
  }
  return all;
}

// Flags that a script compares with [[ … == --tp* ]] went to Megatron-LM's command instead.
TEST(ShellOptions, ComparedFlagsAreTheScriptsOwn) {
  const std::string loop =
      "for para in $*; do\n if [[ $para == --tp* ]]; then TP=${para#*=}; elif [[ $para == "
      "--data_path* ]]; then D=${para#*=}; fi\ndone\nrun $1 $TP $D\n";
  EXPECT_TRUE(takes_flags_itself(loop, {"host", "--data_path=/d"}));
  EXPECT_TRUE(takes_flags_itself("if [ \"$1\" = \"--tp\" ]; then", {"--tp", "4"}));
  EXPECT_TRUE(takes_flags_itself("case $1 in -t|--tp=*) TP=1;;", {"--tp=4"}));
  EXPECT_TRUE(takes_flags_itself("case $1 in \"--tp=\"*) TP=1;;", {"--tp=4"}));
  EXPECT_TRUE(takes_flags_itself("while getopts \":t:p:\" o; do", {"-t4"}));
  EXPECT_FALSE(takes_flags_itself("torchrun pretrain_gpt.py --tp 4", {"--tp", "8"}));
  EXPECT_FALSE(takes_flags_itself("[ $A == 1 ] && run --bf16\n", {"--bf16"}));
  EXPECT_EQ(last(loop, {"h", "--tp=4", "--data_path=/d"}), "run|h|4|/d");
}

// Every branch of such a loop was read where no words are given: defaults before it were gone, and
// nothing could be worked out.
TEST(ShellOptions, WithoutWordsDefaultsBeforeTheLoopHold) {
  const std::string defaults = "P=bf16\nTP=2\n";
  for (const char* loop :
       {"while [[ $# -gt 0 ]]; do case $1 in --fp8) P=fp8; shift;; --tp) TP=$2; shift 2;; esac; "
        "done\n",
        "for a in \"$@\"; do case $a in --fp8) P=fp8;; --tp=*) TP=${a#*=};; esac; done\n",
        "for a in $*; do if [[ $a == --fp8 ]]; then P=fp8; fi; done\n",
        "while getopts 'ft:' o; do case $o in f) P=fp8;; t) TP=$OPTARG;; esac; done\n",
        "f() { while [ -n \"$1\" ]; do case $1 in --fp8) P=fp8; shift;; esac; done; }\nf "
        "\"$@\"\n"}) {
    const ShellScript script = read_shell(defaults + loop + "run $P $TP\n", "run.sh", ShellWorld{});
    EXPECT_EQ(last(defaults + loop + "run $P $TP\n"), "run|bf16|2") << loop;
    EXPECT_TRUE(script.undecided.empty()) << loop;
    ASSERT_EQ(script.loops.size(), 1U) << loop;
    EXPECT_TRUE(script.loops.front().takes_options) << loop;
  }
  // One that starts the training itself is read once, as before.
  EXPECT_EQ(last("for size in \"$@\"; do torchrun train.py --bf16; done\n"),
            "torchrun|train.py|--bf16");
}

TEST(ShellOptions, GetoptsTakesTheScriptsWords) {
  const std::string text =
      "TP=2\nwhile getopts \"t:p:v\" opt; do\n case $opt in t) TP=$OPTARG;; p) PP=$OPTARG;; v) "
      "V=on;; esac\ndone\nshift $((OPTIND-1))\nrun $TP ${PP:-1} ${V:-off} $1\n";
  EXPECT_EQ(last(text, {"-t", "8", "-vp4", "rest"}), "run|8|4|on|rest");
  EXPECT_EQ(last(text, {"--", "-t", "8"}), "run|2|1|off|-t");
  EXPECT_EQ(last(text, {"x", "-t", "8"}), "run|2|1|off|x");
}

// export "$KEY"="$VALUE" set nothing.
TEST(ShellOptions, NamesThatAreWordsThemselves) {
  const std::string text =
      "TP=2\nfor A in \"$@\"; do\n K=$(echo $A | cut -f1 -d=)\n N=${#K}\n V=\"${A:$N+1}\"\n "
      "export \"$K\"=\"$V\"\ndone\nrun $TP $PP\n";
  EXPECT_EQ(last(text, {"TP=8", "PP=4"}), "run|8|4");
  EXPECT_EQ(last("A=TP=4\ndeclare $A\nrun $TP\n"), "run|4");
  EXPECT_EQ(last("f() { local \"$1=$2\"; run $TP; }\nTP=1\nf TP 4\nrun $TP\n"), "run|1");
}

TEST(ShellOptions, ShiftByAnyNumber) {
  EXPECT_EQ(
      last("shift 11\nrun $1\n", {"1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "x"}),
      "run|x");
  EXPECT_EQ(last("shift 0\nrun $1\n", {"a", "b"}), "run|a");
}

}  // namespace
}  // namespace trireme::planner
