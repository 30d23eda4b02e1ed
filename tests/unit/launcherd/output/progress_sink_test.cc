#include "launcherd/output/progress_sink.h"

#include <gtest/gtest.h>

namespace muster::launcherd::progress_sink_test {
namespace {

// Keeps what it gets.
class KeepingSink final : public OutputSink {
 public:
  base::Status write(int rank, proto::OutputStream, std::string_view bytes, std::uint8_t) override {
    text_ += fmt::format("{}:{}", rank, bytes);
    return base::ok_status();
  }
  base::Status end_rank(int rank) override {
    text_ += fmt::format("{} ends\n", rank);
    return base::ok_status();
  }
  void begin_attempt(int attempt) override { text_ += fmt::format("attempt {}\n", attempt); }
  base::Status lost(std::uint64_t bytes, const std::string& host) override {
    text_ += fmt::format("{} lost on {}\n", bytes, host);
    return base::ok_status();
  }
  base::Status flush() override { return base::error(base::Code::kResourceExhausted, "disk full"); }

  std::string text_;
};

TEST(ProgressSink, NotesLinesThatContainTheTextOnce) {
  KeepingSink kept;
  ProgressSink sink(&kept, "epoch");
  EXPECT_FALSE(sink.take_progress());
  EXPECT_TRUE(sink.write(0, proto::OutputStream::kStdout, "loading\n", 0).ok());
  EXPECT_FALSE(sink.take_progress());
  EXPECT_TRUE(sink.write(3, proto::OutputStream::kStderr, "loaded\nepoch 1\n", 0).ok());
  EXPECT_TRUE(sink.take_progress());
  EXPECT_FALSE(sink.take_progress()) << "a new generation begins without progress";
}

TEST(ProgressSink, PassesEverythingOn) {
  KeepingSink kept;
  ProgressSink sink(&kept, "epoch");
  sink.begin_attempt(1);
  EXPECT_TRUE(sink.write(0, proto::OutputStream::kStdout, "a\n", 0).ok());
  EXPECT_TRUE(sink.lost(7, "n1").ok());
  EXPECT_TRUE(sink.end_rank(0).ok());
  EXPECT_EQ(kept.text_, "attempt 1\n0:a\n7 lost on n1\n0 ends\n");
  EXPECT_EQ(sink.flush().code(), base::Code::kResourceExhausted);
}

}  // namespace
}  // namespace muster::launcherd::progress_sink_test
