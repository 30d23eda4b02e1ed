#include "cli/options/horovodrun.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/strings.h"
#include "cli/options/hvdrun_flags.h"
#include "tests/unit/cli/options/parsed.h"

namespace muster::cli::horovodrun_test {
namespace {

using ::testing::HasSubstr;

ParsedHvdrun horovodrun(const Words& words) {
  return parse_hvdrun(words, {}, {.build_id = "b", .system_config = "/nowhere/config.yaml", .is_horovodrun = true});
}

std::string expanded(std::string_view word) {
  const auto full = expand_abbreviation(word);
  return full.ok() ? full->value_or("none") : full.status().message();
}

TEST(Horovodrun, IsANameOfTheProgram) {
  EXPECT_TRUE(is_horovodrun("horovodrun"));
  EXPECT_TRUE(is_horovodrun("/opt/muster/bin/horovodrun"));
  for (const char* other : {"hvdrun", "/horovodrun/hvdrun", "", "horovodrun.py"}) EXPECT_FALSE(is_horovodrun(other));
}

TEST(Horovodrun, AbbreviatesItsOwnOptions) {
  EXPECT_EQ(expanded("--slots"), "--slots-per-host");
  EXPECT_EQ(expanded("--cycle"), "--cycle-time-ms");
  EXPECT_EQ(expanded("--fusion"), "--fusion-threshold-mb");
  EXPECT_EQ(expanded("--num-p"), "--num-proc");
  EXPECT_EQ(expanded("--network-interface"), "--network-interface");
  EXPECT_EQ(expanded("--network"),
            "--network is ambiguous: --network-interface, --network-interfaces; write one of them in full");
  EXPECT_EQ(expanded("--min-n"), "--min-n is ambiguous: --min-np, --min-num-proc; write one of them in full");
  EXPECT_EQ(expanded("--min-num"), "--min-num-proc");
  EXPECT_EQ(expanded("--timeout"), "none");
  EXPECT_EQ(expanded("--"), "none");
  EXPECT_EQ(expanded("-n"), "none");
  EXPECT_EQ(expanded("--timeline"),
            "--timeline is ambiguous: --timeline-filename, --timeline-mark-cycles; write one of them in full");
}

TEST(Horovodrun, AbbreviationsAreReadLikeTheWholeOption) {
  const ParsedHvdrun parsed =
      horovodrun({"-np", "2", "--cycle", "3.5", "--fusion=1", "--no-stall", "--verb", "p", "--x"});
  ASSERT_FALSE(parsed.exit_code) << parsed.text;
  EXPECT_EQ(show(parsed),
            "np=2 env=HOROVOD_FUSION_THRESHOLD=1048576 env=HOROVOD_CYCLE_TIME=3.5 "
            "env=HOROVOD_STALL_CHECK_DISABLE=1 verbose");
  EXPECT_THAT(parsed.options.request.job.command, testing::ElementsAre("p", "--x"));
  EXPECT_THAT(horovodrun({"--timeline", "f", "p"}).text, HasSubstr("hvdrun: --timeline is ambiguous"));
  EXPECT_THAT(horovodrun({"--fusoin", "1", "p"}).text, HasSubstr("unknown option --fusoin"));
  EXPECT_THAT(horovodrun({"--no-stall=1", "p"}).text, HasSubstr("--no-stall-check takes no value"));
}

TEST(Horovodrun, HvdrunTakesNoneAndNamesTheOption) {
  EXPECT_THAT(parse({"--cycle", "3.5", "p"}).text, HasSubstr("unknown option --cycle, did you mean --cycle-time-ms?"));
}

// Else a user of horovodrun who abbreviates one option would get another.
TEST(Horovodrun, NoOptionOfHvdrunsOwnIsAnAbbreviation) {
  for (const Flag& flag : hvdrun_flags().flags()) {
    for (const Spelling& spelling : flag.spellings) {
      const auto full = expand_abbreviation(spelling.text);
      if (!full.ok() || !*full) continue;
      const auto match = hvdrun_flags().find(**full);
      ASSERT_TRUE(match) << **full << " of horovodrun is unknown here";
      EXPECT_EQ(match->flag, &flag) << spelling.text << " would be " << **full << " for horovodrun";
    }
  }
}

}  // namespace
}  // namespace muster::cli::horovodrun_test
