#include "cli/options/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/strings.h"
#include "cli/options/hvdrun_flags.h"
#include "tests/unit/cli/options/parsed.h"

namespace muster::cli::command_line_test {
namespace {

using ::testing::HasSubstr;

struct Boundary {
  Words words;
  Words command;
  std::string shown;
};

TEST(CommandLine, BeginsTheCommandAtTheFirstWordThatIsNoOption) {
  const std::vector<Boundary> table = {
      {{"-np", "2", "python3", "-u", "x.py", "-np", "3"}, {"python3", "-u", "x.py", "-np", "3"}, "np=2"},
      {{"-np", "2", "--", "-weird", "--help"}, {"-weird", "--help"}, "np=2"},
      {{"--", "prog", "--", "--version"}, {"prog", "--", "--version"}, ""},
      {{"prog", "--"}, {"prog", "--"}, ""},
      {{"--verbose", "prog", "--verbose"}, {"prog", "--verbose"}, "verbose"},
      {{"--verbose", "true"}, {"true"}, "verbose"},  // a flag takes no value
      {{"-np", "2", "-"}, {"-"}, "np=2"},
      {{"prog", "", "a b", "ü\n", "--x=\xff"}, {"prog", "", "a b", "ü\n", "--x=\xff"}, ""},
      {{"-x", "A", "prog", "-x", "B"}, {"prog", "-x", "B"}, "env=A"},
      {{"--wdir", "--", "prog"}, {"prog"}, "wdir=--"},  // a value is a value
      {{"prog", "-H", "not:a:host"}, {"prog", "-H", "not:a:host"}, ""},
      {{"-np=2", "./a=b"}, {"./a=b"}, "np=2"},
  };
  for (const Boundary& given : table) {
    const ParsedHvdrun parsed = parse(given.words);
    ASSERT_FALSE(parsed.exit_code) << base::join(given.words, " ") << ": " << parsed.text;
    EXPECT_EQ(parsed.options.request.job.command, given.command);
    EXPECT_EQ(show(parsed), given.shown);
  }
}

struct Refused {
  Words words;
  std::string part;
};

TEST(CommandLine, RefusesWithOneSentence) {
  const std::vector<Refused> table = {
      {{"-np"}, "-np needs a value: -np N"},
      {{"-np", "4", "--wdir"}, "--wdir needs a value: --wdir DIR"},
      {{"--num-proc=", "p"}, "--num-proc needs a value that is not empty"},
      {{"--wdir", "", "p"}, "--wdir needs a value that is not empty"},
      {{"--blacklist-cooldown-range", "1"}, "--blacklist-cooldown-range needs more values"},
      {{"--verbose=1", "p"}, "--verbose takes no value"},
      {{"--gloo=1", "p"}, "--gloo takes no value"},
      {{"-npp", "4", "p"}, "unknown option -npp, did you mean -np?"},
      {{"--host-file", "f", "p"}, "unknown option --host-file, did you mean --hostfile?"},
      {{"--num_proc=4", "p"}, "unknown option --num_proc, did you mean --num-proc?"},
      {{"--ssh-prot", "1", "p"}, "unknown option --ssh-prot, did you mean --ssh-port?"},
      {{"--fusion-treshold-mb", "1", "p"}, "did you mean --fusion-threshold-mb?"},
      {{"--cache-capacty=1", "p"}, "unknown option --cache-capacty, did you mean --cache-capacity?"},
      {{"-iface", "eth0", "p"}, "unknown option -iface"},
      {{"-mca", "btl", "tcp", "p"}, "unknown option -mca"},
      {{"--completely-else", "p"}, "unknown option --completely-else (--help lists all options)"},
      {{"--\x1b[31m", "p"}, "unknown option --\\x1b[31m"},
      {{"-np4", "p"}, "unknown option -np4, did you mean -np?"},
      {{"--gloo", "--mpi", "p"}, "--gloo and --mpi exclude each other"},
      {{"--autotune", "-np", "2", "--no-autotune", "p"}, "--autotune and --no-autotune exclude each other"},
      {{"--log-with-timestamp", "--log-hide-timestamp"}, "exclude each other"},
  };
  for (const Refused& given : table) {
    const auto line = split_command_line(given.words, hvdrun_flags());
    ASSERT_FALSE(line.ok()) << base::join(given.words, " ");
    EXPECT_THAT(line.status().message(), HasSubstr(given.part));
    EXPECT_EQ(line.status().message().find('\n'), std::string::npos);
  }
}

TEST(CommandLine, OptionsKeepTheirOrderAndSpelling) {
  const auto line =
      split_command_line({"-np=2", "--gloo", "-x", "A", "--blacklist-cooldown-range", "1", "2", "p"}, hvdrun_flags());
  ASSERT_TRUE(line.ok()) << line.status();
  std::vector<std::string> shown;
  for (const ParsedOption& option : line->options) {
    shown.push_back(fmt::format("{} {}={}", option.spelling, option.flag->name, option.value));
  }
  EXPECT_EQ(base::join(shown, "; "),
            "-np num-proc=2; --gloo controller=gloo; -x env=A; "
            "--blacklist-cooldown-range blacklist-cooldown-range=1 2");
  EXPECT_EQ(line->command, Words{"p"});
}

TEST(CommandLine, StopsReadingAtAnOptionThatStandsAlone) {
  const auto line = split_command_line({"-np", "0", "--version", "--no-such"}, hvdrun_flags());
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_TRUE(line->is_answered);
  EXPECT_EQ(line->options.back().flag->name, "version");
}

}  // namespace
}  // namespace muster::cli::command_line_test
