#include "agent/unpack/unpacker.h"

#include <fcntl.h>
#include <zstd.h>

#include <algorithm>

#include <gtest/gtest.h>

#include "base/unique_fd.h"
#include "tests/unit/support/temp_dir.h"

namespace muster::agent::unpacker_test {
namespace {

std::string packed(const std::string& text, int window = 0) {
  ZSTD_CCtx* const context = ::ZSTD_createCCtx();
  if (window != 0) ::ZSTD_CCtx_setParameter(context, ZSTD_c_windowLog, window);
  std::string result(::ZSTD_compressBound(text.size()), '\0');
  // In a stream, so that the frame has the window that was asked for and not one of the text's size.
  ZSTD_inBuffer from{text.data(), text.size(), 0};
  ZSTD_outBuffer to{result.data(), result.size(), 0};
  EXPECT_EQ(::ZSTD_compressStream2(context, &to, &from, ZSTD_e_flush), 0U);
  EXPECT_EQ(::ZSTD_compressStream2(context, &to, &from, ZSTD_e_end), 0U);
  ::ZSTD_freeCCtx(context);
  result.resize(to.pos);
  return result;
}

std::string text_of(std::size_t size) {
  std::string text;
  for (unsigned state = 1; text.size() < size;) {
    state = state * 1103515245U + 12345U;
    text += std::string(1 + (state >> 28), static_cast<char>(state >> 16));
  }
  return text;
}

class UnpackerTest : public ::testing::Test {
 protected:
  // Unpacks `bytes` in pieces into a file that takes `size` bytes.
  Problem unpack(std::string_view bytes, std::size_t size, std::size_t piece) {
    const base::UniqueFd fd(::open((folder_ / "f").c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    HashedFile file(fd.get(), size);
    Unpacker unpacker(file);
    while (!bytes.empty()) {
      if (Problem problem = unpacker.add(bytes.substr(0, piece)); !problem.empty()) return problem;
      bytes.remove_prefix(std::min(piece, bytes.size()));
    }
    return unpacker.check_end();
  }

  testing_support::TempDir folder_;
};

TEST_F(UnpackerTest, UnpacksHoweverTheBytesAreCut) {
  const std::string text = text_of(600'000);
  for (const std::size_t piece : {std::size_t{7}, std::size_t{1000}, std::size_t{1} << 20}) {
    EXPECT_EQ(unpack(packed(text), text.size(), piece), "");
    EXPECT_EQ(testing_support::read_text(folder_ / "f"), text) << piece;
  }
}

TEST_F(UnpackerTest, RefusesWhatIsNotOneWholeFrame) {
  const std::string text = text_of(100'000);
  const std::string bytes = packed(text);
  EXPECT_EQ(unpack(bytes.substr(0, bytes.size() - 1), text.size(), 1000), "the compressed agent is cut off");
  EXPECT_EQ(unpack("", text.size(), 1000), "the compressed agent is cut off");
  EXPECT_EQ(unpack(bytes + "x", text.size(), 1000), "bytes follow the compressed agent");
  EXPECT_EQ(unpack("garbage and more garbage", text.size(), 1000),
            "the compressed agent is damaged: Unknown frame descriptor");
}

TEST_F(UnpackerTest, WritesNoMoreThanWasAnnounced) {
  const std::string zeros(50'000'000, '\0');
  EXPECT_EQ(unpack(packed(zeros), 1000, 1000), "the agent is longer than 1000 bytes");
  EXPECT_LE(testing_support::read_text(folder_ / "f").size(), 1000U);
}

TEST_F(UnpackerTest, RefusesAFrameThatNeedsMuchMemory) {
  EXPECT_EQ(unpack(packed("text", 27), 4, 1000),
            "the compressed agent is damaged: Frame requires too much memory for decoding");
}

}  // namespace
}  // namespace muster::agent::unpacker_test
