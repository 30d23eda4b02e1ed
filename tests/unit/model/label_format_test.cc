#include "model/label_format.h"

#include <gtest/gtest.h>

namespace muster::model::label_format_test {
namespace {

std::string shown(std::string_view text) {
  const auto format = LabelFormat::parse(text);
  return format.ok() ? format->label(3, "stderr", "noon") : format.status().message();
}

TEST(LabelFormat, StandardIsHorovodruns) {
  EXPECT_EQ(LabelFormat().label(3, "stdout", "noon"), "[3]<stdout>:");
  EXPECT_EQ(LabelFormat::parse("[{rank}]<{stream}>:").value(), LabelFormat());
}

TEST(LabelFormat, ReplacesItsWords) {
  EXPECT_EQ(shown("{rank}: "), "3: ");
  EXPECT_EQ(shown("{time} {rank}/{stream}|"), "noon 3/stderr|");
  EXPECT_EQ(shown("{{{rank}}} "), "{3} ");
  EXPECT_EQ(shown("plain "), "plain ");
  EXPECT_EQ(shown(""), "");
}

TEST(LabelFormat, RefusesOtherWordsAndLoneBraces) {
  for (const char* wrong : {"{host}", "{", "a}", "{rank", "{ rank}", "{}", "a\nb"}) {
    EXPECT_EQ(LabelFormat::parse(wrong).status().code(), base::Code::kInvalidArgument) << wrong;
  }
  EXPECT_EQ(shown("{host}"),
            "'{host}' is not a label: it may hold {rank}, {stream} and {time}; {{ and }} stand for braces");
}

TEST(LabelFormat, TimeComesFirstUnlessItIsThere) {
  const auto timed = [](std::string_view text) {
    LabelFormat format = LabelFormat::parse(text).value();
    format.add_time();
    EXPECT_TRUE(format.has_time());
    return format.label(3, "stdout", "noon");
  };
  EXPECT_EQ(timed("[{rank}]"), "noon[3]");
  EXPECT_EQ(timed("[{rank} {time}]"), "[3 noon]");
  EXPECT_EQ(timed(""), "noon ");
  EXPECT_FALSE(LabelFormat().has_time());
}

}  // namespace
}  // namespace muster::model::label_format_test
