// Which commands of a script run, and what each of them sees: status, subshells, scripts of its
// own. Every expectation here is what bash 5.2 prints.
#include <gtest/gtest.h>

#include "core/error.h"
#include "planner/shell/script.h"
#include "tests/unit/planner/launch/last_command.h"

namespace trireme::planner {
namespace {

std::string refusal(const std::string& text) {
  try {
    read_shell(text, "run.sh", {});
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// `return` was a command like another: what stands behind it was read too.
TEST(ShellCalls, ReturnLeavesAFunctionAndASourcedFile) {
  EXPECT_EQ(last_command("f() { TP=2; return; TP=8; }\nf\nrun $TP"), "run|2");
  EXPECT_EQ(last_command("f() { if [ $1 = a ]; then TP=2; return; fi; TP=8; }\nf a\nrun $TP"),
            "run|2");
  EXPECT_EQ(last_command("f() { for i in 1 2 3; do TP=$i; [ $i = 2 ] && return; done; }\nf\nrun "
                         "$TP"),
            "run|2");
  EXPECT_EQ(last_command("g() { return; }\nf() { g; TP=4; }\nf\nrun $TP"), "run|4");
  EXPECT_EQ(last_command("cat > a.sh <<'E'\nTP=2\nreturn\nTP=8\nE\n. ./a.sh\nrun $TP"), "run|2");
  // Where the file does not decide it, all of the function is read.
  EXPECT_EQ(last_command("f() { if [ $X = $(nproc) ]; then return; fi; TP=8; }\nf\nrun $TP"),
            "run|8");
}

// `break` in a function left the loop that calls it, and the function stayed open.
TEST(ShellCalls, AFunctionDoesNotLeaveTheLoopsOfItsCaller) {
  EXPECT_EQ(last_command("f() { break; A+=x; }\nfor i in 1 2; do f; done\nrun $A"), "run|xx");
  EXPECT_EQ(last_command("g() { for i in 1 2; do f; done; }\nf() { continue; A+=x; }\ng\nrun $A"),
            "run|xx");
}

// Every call succeeded.
TEST(ShellCalls, TheStatusOfAFunctionDecidesWhatIsJoinedWithIt) {
  const std::string big = "big() { [ $1 = 70b ]; }\n";
  EXPECT_EQ(last_command(big + "TP=1\nbig 7b && TP=8\nrun $TP"), "run|1");
  EXPECT_EQ(last_command(big + "TP=1\nbig 70b && TP=8\nrun $TP"), "run|8");
  EXPECT_EQ(last_command(big + "TP=1\nbig 7b || TP=2\nrun $TP"), "run|2");
  EXPECT_EQ(last_command(big + "if big 7b; then TP=8; else TP=1; fi\nrun $TP"), "run|1");
  EXPECT_EQ(last_command(big + "if ! big 7b; then TP=3; else TP=1; fi\nrun $TP"), "run|3");
  EXPECT_EQ(last_command("f() { return 1; }\nTP=1\nf && TP=8\nrun $TP"), "run|1");
  EXPECT_EQ(last_command("f() { if [ $1 = a ]; then return 0; fi; return 3; }\nTP=1\nf b || "
                         "TP=8\nrun $TP"),
            "run|8");
  EXPECT_EQ(last_command("echo x && TP=8\nrun $TP"), "run|8");
}

// `false && { TP=8; }` ran, and so did every compound command behind && and ||.
TEST(ShellCalls, GroupsBranchesAndLoopsAreJoinedToo) {
  EXPECT_EQ(last_command("TP=1\nfalse && { TP=8; }\nrun $TP"), "run|1");
  EXPECT_EQ(last_command("TP=1\ntrue || if true; then TP=8; fi\nrun $TP"), "run|1");
  EXPECT_EQ(last_command("TP=1\nfalse && for i in 1 2; do TP=$i; done\nrun $TP"), "run|1");
  EXPECT_EQ(last_command("TP=1\nfalse && ( TP=8; run $TP )\nrun $TP"), "run|1");
  EXPECT_EQ(last_command("{ false; } && TP=8 || TP=2\nrun $TP"), "run|2");
  EXPECT_EQ(last_command("if false; then :; fi && TP=4\nrun $TP"), "run|4");
  EXPECT_EQ(last_command("while false; do :; done && TP=4\nrun $TP"), "run|4");
  EXPECT_EQ(last_command("case a in b) false;; esac && TP=4\nrun $TP"), "run|4");
  EXPECT_EQ(last_command("{ TP=2; } > log.txt 2>&1 && TP=4\nrun $TP"), "run|4");
}

// What a part of a pipeline or a job in the background set was taken for the script's own.
TEST(ShellCalls, PipelinesAndTheBackgroundAreSubshells) {
  EXPECT_EQ(last_command("TP=1\ntrue | TP=8\nrun $TP"), "run|1");
  EXPECT_EQ(last_command("TP=1\necho 8 | while read n; do TP=$n; done\nrun $TP"), "run|1");
  EXPECT_EQ(last_command("TP=1\n{ TP=8; } &\nwait\nrun $TP"), "run|1");
  EXPECT_EQ(last_command("TP=1\nTP=8 && true &\nrun $TP"), "run|1");
  EXPECT_EQ(last_command("TP=1\nif true; then TP=8; fi | tee log\nrun $TP"), "run|1");
  EXPECT_EQ(last_command("TP=2\nrun $TP 2>&1 | tee log.txt\n"), "tee|log.txt");
}

// What single quotes keep for the shell inside was refused as an argument $TP.
TEST(ShellCalls, ATextThatBashRunsSeesWhatIsExported) {
  EXPECT_EQ(last_command("export TP=4\nbash -c 'run --tp $TP'"), "run|--tp|4");
  EXPECT_EQ(last_command("TP=4\nsrun bash -c 'run --tp ${TP:-1}'"), "run|--tp|1");
  EXPECT_EQ(last_command("TP=4 bash -c 'run --tp $TP'"), "run|--tp|4");
  EXPECT_EQ(last_command("bash -c 'run $1 $#' name 8"), "run|8|1");
  // $0 was the file's name: --tp 'run.sh'
  EXPECT_EQ(last_command("srun bash -c 'run --tp $0 --pp ${1}' 4 2"), "run|--tp|4|--pp|2");
  EXPECT_EQ(last_command("bash -c 'bash -c \"run \\$0\" 5; run $0' 3"), "run|3");
  EXPECT_EQ(last_command("bash -c 'true' 4\nrun $0"), "run|run.sh");
  EXPECT_EQ(last_command("set -a\nTP=4\nsh -c \"if [ \\$TP = 4 ]; then run big; fi\""), "run|big");
  EXPECT_EQ(last_command("TP=1\nbash -c 'TP=8; true $TP'\nrun $TP"), "run|1");
  const ShellScript led = read_shell("export TP=4\nsrun -N 2 bash -c 'run --tp $TP'", "r", {});
  ASSERT_EQ(led.commands.back().lead.size(), 5U);
  EXPECT_EQ(led.commands.back().lead[2].text, "2");
  // Lines are those of the script.
  const ShellScript lines = read_shell("export A=1\nbash -c '\n  run \\\n  --tp $A'", "r", {});
  EXPECT_EQ(lines.commands.back().words[1].lines[0], 4);
}

// A launcher that the script writes itself had no words, and all of the script's variables.
TEST(ShellCalls, ALauncherThatTheScriptWritesHasItsWordsAndWhatIsExported) {
  const std::string wrote =
      "cat > launch.sh <<'E'\nTP=$1\nrun --tp $TP --pp ${PP:-1} $#\nexit 0\nrun b\nE\n";
  EXPECT_EQ(last_command("PP=2\n" + wrote + "bash launch.sh 4"), "run|--tp|4|--pp|1|1");
  EXPECT_EQ(last_command("export PP=2\n" + wrote + "./launch.sh 4 x"), "run|--tp|4|--pp|2|2");
  EXPECT_EQ(last_command("PP=2\n" + wrote + ". ./launch.sh 4"), "run|--tp|4|--pp|2|1");
  EXPECT_EQ(last_command(wrote + "set -- 7\nbash -x launch.sh 4\nrun $1 $TP"), "run|7");
  EXPECT_EQ(last_command("PP=2 srun bash -s 4 <<'E'\nrun $1 $PP\nE\n"), "run|4|2");
}

// Brackets in a regular expression were cut off, and its groups were not set.
TEST(ShellCalls, GroupsOfARegularExpression) {
  const std::string size = "if [[ $M =~ ^llama-([0-9]+)(b|B)$ ]]; then S=${BASH_REMATCH[1]}; fi\n";
  EXPECT_EQ(last_command("M=llama-70b\n" + size + "run $S ${BASH_REMATCH[2]}"), "run|70|b");
  EXPECT_EQ(last_command("M=qwen-7b\n" + size + "run x$S${#BASH_REMATCH[@]}"), "run|x0");
  EXPECT_EQ(last_command("[[ a1 =~ (a|b)([0-9]) && 2 -gt 1 ]] && run ${BASH_REMATCH[0]}"),
            "run|a1");
}

TEST(ShellCalls, OutputOfListsAndInputFromStrings) {
  EXPECT_EQ(last_command("N=8\nrun $([ $N -gt 4 ] && echo 8 || echo 4)"), "run|8");
  EXPECT_EQ(last_command("N=2\nrun $([ $N -gt 4 ] && echo 8 || echo 4)"), "run|4");
  EXPECT_EQ(last_command("N=2\nrun $(if_ignored=1; [[ $N == 2 || $N == 4 ]] && echo yes; echo z)"),
            "run|yes|z");
  EXPECT_EQ(last_command("A=1,2\nrun $(sed 's/,/ /' <<< $A) $(tr , x <<< \"$A\")"), "run|1|2|1x2");
  EXPECT_EQ(last_command("D=0,1,2,3\nrun $(echo $D | tr ',' '\\n' | wc -l)"), "run|4");
  EXPECT_EQ(last_command("mapfile -t A <<< $'a\\nb'\nrun ${#A[@]} ${A[1]}"), "run|2|b");
  EXPECT_EQ(last_command("readarray -t A < <(seq 1 3)\nrun ${A[@]}"), "run|1|2|3");
  EXPECT_EQ(last_command("A=1\nB=$(A=2; echo $A)\nrun $A $B"), "run|1|2");
  EXPECT_EQ(last_command("run $([ $(nproc) -gt 4 ] && echo 8) b"), "run|b");  // not known
}

// Scripts that bash refuses were read to their end and judged.
TEST(ShellCalls, WhatIsNotClosedIsRefusedWithItsLine) {
  for (const auto& [text, word] : std::vector<std::pair<std::string, std::string>>{
           {"a\nif true; then\nrun", "fi"},
           {"a\nfor i in 1 2; do\nrun", "done"},
           {"a\nwhile true; do\nif a; then b; fi\nrun", "done"},
           {"a\ncase x in\n a) run;;\n", "esac"},
           {"a\nf() {\nrun", "}"},
           {"a\n( run", ")"}}) {
    EXPECT_NE(refusal(text).find("run.sh:2"), std::string::npos) << text << refusal(text);
    EXPECT_NE(refusal(text).find("its " + word), std::string::npos) << text << refusal(text);
  }
  EXPECT_NE(refusal("a\nfi\nrun").find("run.sh:2"), std::string::npos);
  EXPECT_NE(refusal("if a; then\nfor i in 1; do b; fi\ndone").find("run.sh:2"), std::string::npos);
  EXPECT_EQ(refusal("run done fi --case esac; echo if"), "");  // words of a command
  EXPECT_EQ(refusal("case $1 in (a) run;; b|c) run ;; esac; select x in a; do run; done"), "");
  EXPECT_EQ(refusal("run --moe ([0]*3+[1]*58) --tp 2"), "");
}

// NAME=() was the head of a function, and kept what stood in the array.
TEST(ShellCalls, AnEmptyArrayIsNoFunction) {
  EXPECT_EQ(last_command("A=(--x)\nif true; then\n A=()\nfi\nrun \"${A[@]}\" ${#A[@]}"), "run|0");
  EXPECT_EQ(last_command("A=()\n{ run a; }\n{ run b; }"), "run|b");
}

// One that nests without end took the stack.
TEST(ShellCalls, NestingWithoutEndIsRefused) {
  std::string text;
  for (int i = 0; i < 20'000; ++i) {
    text += i % 2 == 0 ? "if a; then { " : "f() ";
  }
  EXPECT_FALSE(refusal(text).empty());
  EXPECT_FALSE(refusal(std::string(20'000, '(')).empty());
}

// Megatron-DeepSpeed's scripts ask their hosts for a file: no verdict ("arguments could not be
// worked out").
TEST(ShellCalls, AConditionThatIsACommandsOutputIsNoArgument) {
  const ShellScript script = read_shell(
      "for ((n = 0; n < 2; n++)); do\n  if $(ssh worker-\"$n\" \"test -f x\"); then I=1; fi\ndone\n"
      "deepspeed pretrain_gpt.py --tp 2",
      "run.sh", {});
  EXPECT_TRUE(script.variables.unset_words.empty());
  EXPECT_EQ(script.commands.back().words.back().text, "2");
}

// slime's scripts start a worker of Ray on every host: what those are told is no argument of the
// training, and took the verdict away.
TEST(ShellCalls, WhatOtherHostsAreToldInALoopIsNoArgument) {
  const auto holds = [](const std::string& body) {
    const ShellScript script = read_shell(
        "for h in $(cat hosts); do\n" + body + "\ndone\nrun train.py --tp 2", "run.sh", {});
    return !script.loops.empty() && script.loops.back().holds_arguments;
  };
  EXPECT_FALSE(holds("if [ $h = a ]; then continue; fi\nssh root@$h \"ray start --num-gpus 8\" &"));
  EXPECT_FALSE(holds("ray start --address=$h"));
  EXPECT_TRUE(holds("A=\"$A --data $h\""));
  EXPECT_TRUE(holds("ssh $h \"torchrun train.py --tp 2\""));
}

// Where a script ends with the `<` of a command that puts lines in, they were put behind its end.
TEST(ShellCalls, ACommandThatEndsWithItsScriptIsReadInPlace) {
  EXPECT_EQ(read_shell("eval TP=2 <", "run.sh", {}).variables.known.count("TP"), 1U);
  EXPECT_EQ(read_shell("sh <<E <", "run.sh", {}).commands.size(), 0U);
}

}  // namespace
}  // namespace trireme::planner
