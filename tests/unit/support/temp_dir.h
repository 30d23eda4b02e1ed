// A directory of a test's own, removed with all that it holds.
//
// Below /tmp whatever TMPDIR says: the paths of sockets in it must stay short. What cannot be removed fails the test.
#pragma once

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <system_error>

#include <gtest/gtest.h>

namespace muster::testing_support {

// The whole file; it must be there.
inline std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

class TempDir {
 public:
  TempDir() {
    if (::mkdtemp(path_.data()) == nullptr) ADD_FAILURE() << path_ << ": " << std::generic_category().message(errno);
  }
  ~TempDir() {
    std::error_code error;
    do {  // whoever is still ending may remove its own meanwhile
      std::filesystem::remove_all(path_, error);
    } while (error == std::errc::no_such_file_or_directory);
    EXPECT_FALSE(error) << path_ << ": " << error.message();
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(std::string_view name) const { return path_ + "/" + std::string(name); }

  // Makes the folders on the way as well; returns the file's path.
  std::string write(std::string_view name, std::string_view content) const {
    const std::filesystem::path file(*this / name);
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary).write(content.data(), static_cast<std::streamsize>(content.size()));
    return file.string();
  }
  // The whole file; it must be there.
  std::string read(std::string_view name) const { return read_text(*this / name); }

 private:
  std::string path_ = "/tmp/muster-test-XXXXXX";
};

}  // namespace muster::testing_support
