#include "cli/view/log_output.h"

#include <vector>

#include <gtest/gtest.h>

namespace muster::cli::log_output_test {
namespace {

class NoSink final : public launcherd::OutputSink {
 public:
  base::Status write(int, proto::OutputStream, std::string_view bytes, std::uint8_t) override {
    text.append(bytes);
    return base::ok_status();
  }
  base::Status end_rank(int) override { return base::ok_status(); }
  base::Status flush() override { return base::ok_status(); }
  std::string text;
};

TEST(LogOutput, SaysWhatIsMissingAndWhose) {
  NoSink sink;
  std::vector<std::string> notices;
  LogOutput output(&sink, nullptr, [&notices](const std::string& line) { notices.push_back(line); });
  v1::LogChunk chunk;
  chunk.set_lost_bytes(7);
  EXPECT_TRUE(output.show(chunk).ok());
  EXPECT_EQ(output.what_is_gone(), "");
  for (const char* const host : {"n1", "n2", "n1"}) {
    chunk.set_lost_host(host);
    EXPECT_TRUE(output.show(chunk).ok());
  }
  v1::LogChunk data;
  data.set_data("x\n");
  EXPECT_TRUE(output.show(data).ok());
  EXPECT_EQ(sink.text, "x\n");
  ASSERT_EQ(notices.size(), 4U);
  EXPECT_EQ(notices[0], "7 bytes of output are missing here: launcherd's disk was full");
  EXPECT_EQ(notices[1],
            "7 bytes of the output of n1 are missing here: launcherd's disk confirmed the write and lost it");
  EXPECT_EQ(output.what_is_gone(),
            "14 bytes of the output of n1, 7 bytes of the output of n2 are lost: launcherd's disk confirmed the "
            "write and lost it");
}

}  // namespace
}  // namespace muster::cli::log_output_test
