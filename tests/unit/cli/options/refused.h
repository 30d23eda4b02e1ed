// Command lines that hvdrun refuses, each with a part of the sentence that says why.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/strings.h"
#include "tests/unit/cli/options/parsed.h"

namespace muster::cli {

struct Refused {
  Words words;
  std::string part;
};

inline void expect_refused(const std::vector<Refused>& table) {
  for (const Refused& given : table) {
    const ParsedHvdrun parsed = parse(given.words);
    ASSERT_EQ(parsed.exit_code, 2) << base::join(given.words, " ");
    EXPECT_THAT(parsed.text, ::testing::StartsWith("hvdrun: "));
    EXPECT_THAT(parsed.text, ::testing::HasSubstr(given.part));
    EXPECT_EQ(parsed.text.find('\n'), parsed.text.size() - 1) << "more than one line: " << parsed.text;
  }
}

}  // namespace muster::cli
