// Every option of hvdrun in every spelling, as the user's words and what they are read as.
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/strings.h"
#include "cli/options/hvdrun_flags.h"
#include "tests/unit/cli/options/parsed.h"
#include "tests/unit/cli/options/spellings.h"

namespace muster::cli::spellings_test {
namespace {

using ::testing::ElementsAre;

TEST(Spellings, ReadsEachOneAsItsTableShows) {
  for (const auto* table : {&launch_table(), &horovod_table()}) {
    for (const Accepted& given : *table) {
      Words words = given.words;
      words.emplace_back("prog");
      const ParsedHvdrun parsed = parse(words);
      ASSERT_FALSE(parsed.exit_code) << base::join(words, " ") << ": " << parsed.text;
      EXPECT_EQ(show(parsed), given.shown) << base::join(words, " ");
      EXPECT_THAT(parsed.options.request.job.command, ElementsAre("prog"));
    }
  }
}

TEST(Spellings, NoneIsMissingFromTheTables) {
  // These answer or refuse, or need a file: options_test.cc,
  // config_file_test.cc, dry_run_test.cc.
  std::set<std::string> tried = {"-v",     "--version",     "-h",      "--help",    "--config-file", "--print-config",
                                 "-cb",    "--check-build", "--pty",   "--dry-run", "--completion",  "--man",
                                 "--json", "--assume-node", "--probe", "--mpi",     "--jsrun",       "--self-test",
                                 "-t",     "--template",    "--set",   "--color"};
  for (const auto* table : {&launch_table(), &horovod_table()}) {
    for (const Accepted& given : *table) {
      for (const std::string& word : given.words) tried.insert(word.substr(0, word.find('=')));
    }
  }
  for (const Flag& flag : hvdrun_flags().flags()) {
    for (const Spelling& spelling : flag.spellings) {
      EXPECT_TRUE(tried.contains(std::string(spelling.text))) << spelling.text;
    }
  }
}

}  // namespace
}  // namespace muster::cli::spellings_test
