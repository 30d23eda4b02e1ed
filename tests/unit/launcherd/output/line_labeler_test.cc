#include "launcherd/output/line_labeler.h"

#include <cstdlib>
#include <vector>

#include <gtest/gtest.h>

namespace muster::launcherd::line_labeler_test {
namespace {

using proto::OutputStream;

struct Piece {
  int rank;
  std::string_view text;
  OutputStream stream = OutputStream::kStdout;
};

std::string label_all(const std::vector<Piece>& pieces) {
  LineLabeler labeler{model::LabelFormat()};
  TextBuffer out;
  for (const Piece& piece : pieces) {
    EXPECT_EQ(labeler.append(piece.rank, piece.stream, piece.text, {}, 1 << 20, &out), piece.text.size());
  }
  return std::string(out.view());
}

TEST(LineLabeler, LabelsLinesOfSeveralRanks) {
  LineLabeler labeler{model::LabelFormat()};
  TextBuffer out;
  labeler.append(3, OutputStream::kStdout, "Name: ", {}, 1 << 20, &out);
  labeler.append_lines("0-2", OutputStream::kStderr, "a\nb\n", {}, &out);
  labeler.append(3, OutputStream::kStdout, "bob\n", {}, 1 << 20, &out);
  EXPECT_EQ(out.view(), "[3]<stdout>:Name: \n[0-2]<stderr>:a\n[0-2]<stderr>:b\n[3]<stdout>:bob\n");
  EXPECT_EQ(labeler.join(), Join::kFresh);
  out.clear();
  labeler.append(0, OutputStream::kStdout, "1%\r", {}, 1 << 20, &out);
  labeler.append_lines("4,6", OutputStream::kStdout, "a\n", {}, &out);
  EXPECT_EQ(out.view(), "[0]<stdout>:1%\r[4,6]<stdout>:a\n");
}

TEST(LineLabeler, Table) {
  const OutputStream err = OutputStream::kStderr;
  const struct {
    const char* what;
    std::vector<Piece> pieces;
    std::string expected;
  } cases[] = {
      {"each line has its label", {{3, "a\nb\n"}}, "[3]<stdout>:a\n[3]<stdout>:b\n"},
      {"stderr is another label", {{0, "a\n"}, {0, "b\n", err}}, "[0]<stdout>:a\n[0]<stderr>:b\n"},
      {"empty lines count", {{1, "\n\n"}}, "[1]<stdout>:\n[1]<stdout>:\n"},
      {"a bar ends a line", {{0, "1%\r2%\r"}}, "[0]<stdout>:1%\r[0]<stdout>:2%\r"},
      {"CR LF is one end", {{0, "a\r\nb\r\n"}}, "[0]<stdout>:a\r\n[0]<stdout>:b\r\n"},
      {"CR LF in two pieces is one end, too", {{0, "a\r"}, {0, "\nb\n"}}, "[0]<stdout>:a\r\n[0]<stdout>:b\n"},
      {"LF after another rank's line is a line",
       {{0, "a\r"}, {1, "x\n"}, {0, "\n"}},
       "[0]<stdout>:a\r[1]<stdout>:x\n[0]<stdout>:\n"},
      {"text after a bar has a label", {{0, "1%\r"}, {0, "2%\r"}}, "[0]<stdout>:1%\r[0]<stdout>:2%\r"},
      {"an open line goes on", {{0, "na"}, {0, "me\nnext\n"}}, "[0]<stdout>:name\n[0]<stdout>:next\n"},
      {"an open line is closed before another rank",
       {{0, "name: "}, {1, "x\n"}, {0, "bob\n"}},
       "[0]<stdout>:name: \n[1]<stdout>:x\n[0]<stdout>:bob\n"},
      {"or before the same rank's stderr", {{0, "name: "}, {0, "x\n", err}}, "[0]<stdout>:name: \n[0]<stderr>:x\n"},
      {"a bar needs no closing", {{0, "1%\r"}, {1, "x\n"}}, "[0]<stdout>:1%\r[1]<stdout>:x\n"},
      {"an open line may end in a bar", {{0, "a"}, {0, "b\r"}, {1, "x\n"}}, "[0]<stdout>:ab\r[1]<stdout>:x\n"},
      {"bytes are bytes", {{0, std::string_view("\0\xff\n", 3)}}, std::string("[0]<stdout>:\0\xff\n", 15)},
      {"bars and lines mixed", {{0, "a\rb\nc\rd\n"}}, "[0]<stdout>:a\r[0]<stdout>:b\n[0]<stdout>:c\r[0]<stdout>:d\n"},
  };
  for (const auto& [what, pieces, expected] : cases) EXPECT_EQ(label_all(pieces), expected) << what;
}

TEST(LineLabeler, WithoutLabelLinesStayWhole) {
  LineLabeler labeler(model::LabelFormat::parse("").value());
  TextBuffer out;
  for (const Piece& piece : std::vector<Piece>{{0, "No Err"}, {0, "ors\n"}, {0, "half"}, {1, "x\n"}, {0, "done\n"}}) {
    labeler.append(piece.rank, piece.stream, piece.text, {}, 1 << 20, &out);
  }
  EXPECT_EQ(out.view(), "No Errors\nhalf\nx\ndone\n");
}

TEST(LineLabeler, TheEndClosesAnOpenLineOnly) {
  LineLabeler labeler{model::LabelFormat()};
  TextBuffer out;
  labeler.append(0, OutputStream::kStdout, "bye", {}, 1 << 20, &out);
  EXPECT_EQ(labeler.open_label(), "[0]<stdout>:");
  labeler.end(1, OutputStream::kStdout, &out);
  labeler.end(0, OutputStream::kStderr, &out);
  EXPECT_EQ(out.view(), "[0]<stdout>:bye");
  labeler.end(0, OutputStream::kStdout, &out);
  labeler.end(0, OutputStream::kStdout, &out);
  EXPECT_EQ(out.view(), "[0]<stdout>:bye\n");
  EXPECT_EQ(labeler.open_label(), "");
  labeler.append(0, OutputStream::kStdout, "1%\r", {}, 1 << 20, &out);
  labeler.end(0, OutputStream::kStdout, &out);
  EXPECT_EQ(out.view(), "[0]<stdout>:bye\n[0]<stdout>:1%\r");
}

TEST(LineLabeler, StopsAtALineEndWhenThereIsEnough) {
  LineLabeler labeler{model::LabelFormat()};
  TextBuffer out;
  const std::string_view text = "one\ntwo\nthree\n";
  std::size_t used = labeler.append(0, OutputStream::kStdout, text, {}, 1, &out);
  EXPECT_EQ(used, 4U);
  EXPECT_EQ(out.view(), "[0]<stdout>:one\n");
  out.clear();
  used += labeler.append(0, OutputStream::kStdout, text.substr(used), {}, 20, &out);
  EXPECT_EQ(out.view(), "[0]<stdout>:two\n[0]<stdout>:three\n");
  EXPECT_EQ(used, text.size());
}

TEST(LineLabeler, KnowsHowTheBufferBegins) {
  LineLabeler labeler{model::LabelFormat()};
  TextBuffer out;
  const auto join_of = [&](int rank, std::string_view text) {
    out.clear();
    labeler.append(rank, OutputStream::kStdout, text, {}, 1 << 20, &out);
    return labeler.join();
  };
  EXPECT_EQ(join_of(0, "open"), Join::kFresh);
  EXPECT_EQ(join_of(0, " still"), Join::kContinues);
  EXPECT_EQ(join_of(1, "x\n"), Join::kCloses);
  EXPECT_EQ(join_of(0, "1%\r"), Join::kFresh);
  EXPECT_EQ(join_of(0, "\n"), Join::kContinues);
  EXPECT_EQ(join_of(0, "1%\r"), Join::kFresh);
  EXPECT_EQ(join_of(1, "open"), Join::kFresh);
  out.clear();
  labeler.end(1, OutputStream::kStdout, &out);
  EXPECT_EQ(labeler.join(), Join::kCloses);
  EXPECT_EQ(out.view(), "\n");
}

TEST(LineLabeler, TimestampsAreLocalAsctime) {
  setenv("TZ", "UTC", 1);
  tzset();
  model::LabelFormat format;
  format.add_time();
  LineLabeler labeler(format);
  TextBuffer out;
  const base::WallTime time = base::WallTime::clock::from_time_t(1781975153);  // 2026-06-20T17:05:53Z
  labeler.append(3, OutputStream::kStdout, "a\nb\n", time, 1 << 20, &out);
  EXPECT_EQ(out.view(), "Sat Jun 20 17:05:53 2026[3]<stdout>:a\nSat Jun 20 17:05:53 2026[3]<stdout>:b\n");
  out.clear();
  // asctime pads days below 10 with a blank, and so does the label.
  labeler.append(3, OutputStream::kStderr, "c\n", time - std::chrono::hours(24 * 12), 1 << 20, &out);
  EXPECT_EQ(out.view(), "Mon Jun  8 17:05:53 2026[3]<stderr>:c\n");
}

TEST(TextBuffer, GrowsAndKeepsItsText) {
  TextBuffer buffer;
  std::string expected;
  for (int i = 0; i < 2000; ++i) {
    const std::string text(static_cast<std::size_t>(i % 700), static_cast<char>('a' + i % 26));
    buffer.append(text);
    expected += text;
  }
  EXPECT_EQ(buffer.view(), expected);
  buffer.clear();
  EXPECT_EQ(buffer.size(), 0U);
}

}  // namespace
}  // namespace muster::launcherd::line_labeler_test
