// Tests the page as launcherd holds it: its size, and that it loads nothing else and parses no text as HTML.
#include "launcherd/web/page_files.h"

#include <map>
#include <string>

#include <gtest/gtest.h>

namespace muster::launcherd::page_files_test {
namespace {

std::map<std::string, std::string> files() {
  std::map<std::string, std::string> all;
  for (const PageFile& file : page_files()) all[std::string(file.name)] = std::string(file.content);
  return all;
}

TEST(PageFiles, ThePageIsSmall) {
  std::size_t bytes = 0;
  for (const auto& [name, content] : files()) {
    EXPECT_GT(content.size(), 1000U) << name;
    bytes += content.size();
  }
  RecordProperty("bytes", static_cast<int>(bytes));
  EXPECT_LE(bytes, 200U * 1024) << "the whole page, before any answer of the API";
}

TEST(PageFiles, ThePageLoadsThreeFilesOfItsOwn) {
  const auto all = files();
  ASSERT_EQ(all.size(), 3U);
  EXPECT_NE(all.at("page.html").find("src=\"/page.js\""), std::string::npos);
  EXPECT_NE(all.at("page.html").find("href=\"/page.css\""), std::string::npos);
  for (const auto& [name, content] : all) {
    const std::string svg = "http://www.w3.org/2000/svg";  // a name, which is never loaded
    for (std::size_t at = content.find("://"); at != std::string::npos; at = content.find("://", at + 1)) {
      EXPECT_TRUE(at >= 4 && content.compare(at - 4, svg.size(), svg) == 0)
          << name << ": " << content.substr(at - 8, 40);
    }
    EXPECT_EQ(content.find("\nimport "), std::string::npos) << name;
    EXPECT_EQ(content.find("\nexport "), std::string::npos) << name;
  }
}

TEST(PageFiles, TextIsNeverParsed) {
  const std::string script = files().at("page.js");
  for (const char* const word : {"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(",
                                 "new Function", "setAttribute(\"style\"", "srcdoc"}) {
    EXPECT_EQ(script.find(word), std::string::npos) << word;
  }
  const std::string page = files().at("page.html");
  EXPECT_EQ(page.find(" onclick="), std::string::npos);
  EXPECT_EQ(page.find(" style="), std::string::npos);
}

}  // namespace
}  // namespace muster::launcherd::page_files_test
