#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "cli/help/command_doc.h"
#include "cli/options/hvdrun_flags.h"
#include "model/exit_code.h"

namespace muster::cli::hvdrun_doc_test {
namespace {

using ::testing::HasSubstr;

TEST(HvdrunDoc, TakesExitCodesFromTheTable) {
  std::size_t found = 0;
  for (const ExitCode& code : hvdrun_doc().exit_codes) {
    for (const model::ExitCode& row : model::kExitCodes) {
      if (code.codes != std::to_string(row.cause)) continue;
      EXPECT_EQ(code.meaning, row.sentence);
      ++found;
    }
  }
  EXPECT_EQ(found + 3, std::size(model::kExitCodes));  // all but those of muster's verbs
}

TEST(HvdrunDoc, HasTheUserGuidesTableOfExitCodes) {
  const auto guide = base::read_file("../../../docs/guide/exit-codes.md");
  ASSERT_TRUE(guide.ok()) << guide.status();
  std::string table = "| exit code | meaning |\n|---|---|\n";
  for (const ExitCode& code : hvdrun_doc().exit_codes) table += fmt::format("| {} | {} |\n", code.codes, code.meaning);
  EXPECT_THAT(*guide, HasSubstr("\n" + table + "\n"));
}

}  // namespace
}  // namespace muster::cli::hvdrun_doc_test
