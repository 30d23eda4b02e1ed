// The files of launcherd's page, compiled into the program: page.html and page.css of page/, and page.js.
#pragma once

#include <span>
#include <string_view>

namespace muster::launcherd::inline web {

struct PageFile {
  std::string_view name;
  std::string_view content_type;
  std::string_view content;
};

std::span<const PageFile> page_files();

}  // namespace muster::launcherd::web
