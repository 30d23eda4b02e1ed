#include "base/sha256.h"

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "base/unique_fd.h"

namespace muster::base::sha256_test {
namespace {

std::string hex(const std::string& bytes) {
  std::string text;
  for (const char byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

// FIPS 180-2, appendix B.1.
constexpr const char* kAbc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

TEST(Sha256, AgreesWithThePublishedVectors) {
  EXPECT_EQ(hex(*sha256_of("abc")), kAbc);
  EXPECT_EQ(hex(*sha256_of("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_of("abc")->size(), kSha256Size);
}

TEST(Sha256, AFileHasTheHashOfItsContent) {
  const std::string path = ::testing::TempDir() + "/muster-sha256-" + std::to_string(::getpid());
  std::ofstream(path) << "abc";
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(hex(*sha256_of_file(file.get())), kAbc);
  const std::atomic<bool> stop = true;
  EXPECT_EQ(sha256_of_file(file.get(), &stop).status().code(), Code::kCancelled);
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace muster::base::sha256_test
