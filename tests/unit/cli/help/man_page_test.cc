#include "cli/help/man_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/strings.h"
#include "cli/foreign/torchrun.h"
#include "cli/options/hvdrun_flags.h"

namespace muster::cli::man_page_test {
namespace {

using ::testing::HasSubstr;

TEST(ManPage, HasTheSectionsOfAPage) {
  for (const CommandDoc* doc : {&hvdrun_doc(), &torchrun_doc()}) {
    const std::string page = man_page(*doc);
    std::size_t at = 0;
    for (const char* section : {".TH ", ".SH NAME", ".SH SYNOPSIS", ".SH DESCRIPTION", ".SH OPTIONS", ".SH NOTES",
                                ".SH EXAMPLES", ".SH EXIT STATUS", ".SH FILES"}) {
      const std::size_t found = page.find(section);
      ASSERT_NE(found, std::string::npos) << section;
      EXPECT_GE(found, at);
      at = found;
    }
  }
  EXPECT_THAT(man_page(torchrun_doc()), HasSubstr(".TH MUSTER-TORCHRUN 1 "));
}

TEST(ManPage, TellsSpellingsDefaultKeyAndVariable) {
  EXPECT_THAT(
      man_page(hvdrun_doc()),
      HasSubstr(".TP\n\\fB\\-\\-start\\-timeout\\fR \\fITIME\\fR\n"
                "Fail if not all hosts are up within this time, or if no rank starts for this long.\nDefault: 30s.\n"
                "Configuration: muster.start_timeout; variable: MUSTER_START_TIMEOUT.\n"));
}

TEST(ManPage, NamesTheValueBehindSpellingsThatTakeOne) {
  EXPECT_THAT(man_page(hvdrun_doc()), HasSubstr(".TP\n\\fB\\-\\-on\\-exit\\fR \\fInonzero\\-kill|any\\-kill|wait\\fR, "
                                                "\\fB\\-\\-keep\\-going\\fR\n"));
}

// roff reads ASCII, takes a dot or a quote at the beginning of a line for a request, and '-' for a hyphen.
TEST(ManPage, NothingOfTheTextIsTakenForRoff) {
  for (const CommandDoc* doc : {&hvdrun_doc(), &torchrun_doc()}) {
    const std::string page = man_page(*doc);
    for (const std::string_view line : base::split(page, '\n')) {
      for (const char c : line) EXPECT_LT(static_cast<unsigned char>(c), 0x80) << line;
      if (line.starts_with('.')) {
        const auto request = line.substr(1, 2);
        EXPECT_TRUE(request == "TH" || request == "SH" || request == "SS" || request == "PP" || request == "TP" ||
                    request == "TQ")
            << line;
      }
      EXPECT_FALSE(line.starts_with('\'')) << line;
    }
  }
  EXPECT_THAT(man_page(hvdrun_doc()), HasSubstr("\\[u2026]"));
}

}  // namespace
}  // namespace muster::cli::man_page_test
