// Files of an environment name its folder: the first lines of scripts in bin/, the files that activate it, and a few
// more. On a host the environment lies elsewhere, so these files get the new path. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace muster::agent::inline stage {

// Larger files are never rewritten: the files in question are small, and each is held in memory.
inline constexpr std::size_t kMostRewritten = 1 << 20;

// True for a path below the environment whose file may name the environment's folder: a file directly in bin/, *.pth,
// kernel.json and *.pc. Not pyvenv.cfg, whose `home` is the folder of the Python that made the environment.
bool may_name_prefix(std::string_view path);

// Replaces each of `prefixes` in `text` by `home`, where it stands for a whole path or for the beginning of one.
// Returns the text as it is if it contains NUL: then it is a program.
std::string with_prefix(std::string text, const std::vector<std::string>& prefixes, const std::string& home);

// Returns the target of a link. If it lies in one of `prefixes`, it is the same place in `home`.
std::string moved_target(const std::string& target, const std::vector<std::string>& prefixes, const std::string& home);

}  // namespace muster::agent::stage
