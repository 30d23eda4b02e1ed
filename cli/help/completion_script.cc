#include "cli/help/completion_script.h"

#include <fmt/format.h>

namespace muster::cli::inline help {
namespace {

// bash splits words at = and ':', so the script joins words that no blank separates. bash replaces only what follows
// the last = or ':', so the script removes what precedes it from each candidate.
constexpr std::string_view kBash = R"script(# bash completion for PROGRAM: asks the program itself
_PROGRAM() {
  local line=${COMP_LINE:0:COMP_POINT} rest word text before= breaks=${COMP_WORDBREAKS//[!=:]/} i words=() places=() texts=()
  for ((i = 0; i <= COMP_CWORD; i++)); do
    rest=${line#"${line%%[![:space:]]*}"} word=${COMP_WORDS[i]}
    ((i == COMP_CWORD)) && word=$rest
    if ((i)) && [[ $rest == "$line" ]]; then words[-1]+=$word; else words+=("$word") places+=("$i"); fi
    line=${rest#"$word"}
  done
  local cur=${words[-1]}
  [[ $breaks ]] && before=${cur%"${cur##*["$breaks"]}"}
  COMPREPLY=()
  while IFS=$'\t' read -r word text; do
    case $word in
      :nospace) compopt -o nospace ;;
      :files | :folders)
        compopt -o filenames
        [[ $word == :files ]] && i=-f || i=-d
        while IFS= read -r rest; do COMPREPLY+=("$text$rest"); done < <(compgen "$i" -- "${cur#"$text"}") ;;
      :command)
        if declare -F _command_offset >/dev/null; then _command_offset "${places[text + 1]}"; return; fi
        ((text + 2 == ${#words[@]})) && mapfile -t COMPREPLY < <(compgen -c -- "$cur")
        compopt -o filenames
        while IFS= read -r rest; do COMPREPLY+=("$rest"); done < <(compgen -f -- "$cur") ;;
      *) COMPREPLY+=("$word") texts[${#COMPREPLY[@]} - 1]=$text ;;
    esac
  done < <("${words[0]/#\~/$HOME}" __complete "${words[@]:1}" 2>/dev/null)
  COMPREPLY=("${COMPREPLY[@]#"$before"}")
  # bash shows candidates as they are, so add descriptions only to a list that is shown and not inserted.
  if [[ $COMP_TYPE == 63 ]] && ((${#COMPREPLY[@]} > 1 && ${#texts[@]} > 1)); then
    for i in "${!texts[@]}"; do
      [[ ${texts[i]} ]] && printf -v rest '%-14s  (%s)' "${COMPREPLY[i]}" "${texts[i]}" && COMPREPLY[i]=${rest:0:${COLUMNS:-80} - 4}
    done
  fi
}
complete -o nosort -F _PROGRAM PROGRAM 2>/dev/null || complete -F _PROGRAM PROGRAM
)script";

constexpr std::string_view kZsh = R"script(#compdef PROGRAM
# zsh completion for PROGRAM: asks the program itself
_PROGRAM() {
  local program=${(Q)words[1]} line word text n
  local -a given found space
  ((CURRENT > 2)) && given=("${(@Q)words[2,CURRENT-1]}")
  given+=("${(Q)PREFIX}")
  for line in "${(@f)$(${program/#\~/$HOME} __complete "${given[@]}" 2>/dev/null)}"; do
    word=${line%%$'\t'*} text=
    [[ $line == *$'\t'* ]] && text=${line#*$'\t'}
    case $word in
      '') ;;
      :nospace) space=(-S '') ;;
      :files | :folders)
        [[ -n $text ]] && compset -P "${(b)text}"
        [[ $word == :files ]] && _files || _files -/ ;;
      :command)
        n=$((text + 2))
        words=("${(@)words[n,-1]}") CURRENT=$((CURRENT - n + 1))
        _normal
        return ;;
      *) found+=("${word//:/\\:}${text:+:$text}") ;;
    esac
  done
  ((${#found})) && _describe -V -t values value found "${space[@]}"
}
compdef _PROGRAM PROGRAM
[[ $funcstack[1] == _PROGRAM ]] && _PROGRAM "$@"
)script";

constexpr std::string_view kFish = R"script(# fish completion for PROGRAM: asks the program itself
function __complete_PROGRAM
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l program (string replace -r '^~' $HOME -- $words[1])
    set -l given $words
    set -e given[1]
    for line in ($program __complete $given "$current" 2>/dev/null)
        set -l parts (string split -m 1 \t -- $line)
        switch $parts[1]
            case :nospace
            case :files :folders
                set -l typed (string sub -s (math (string length -- "$parts[2]") + 1) -- $current)
                set -l kind __fish_complete_path
                test $parts[1] = :folders; and set kind __fish_complete_directories
                for path in ($kind "$typed" '')
                    echo $parts[2]$path
                end
            case :command
                for i in (seq $parts[2])
                    set -e given[1]
                end
                complete -C (string join ' ' -- (string escape -- $given) $current)
            case '*'
                echo $line
        end
    end
end
complete -c PROGRAM -k -f -a '(__complete_PROGRAM)'
)script";

std::string for_program(std::string_view script, std::string_view program) {
  constexpr std::string_view kPlace = "PROGRAM";
  std::string text(script);
  for (std::size_t at = text.find(kPlace); at != std::string::npos; at = text.find(kPlace, at + program.size())) {
    text.replace(at, kPlace.size(), program);
  }
  return text;
}

}  // namespace

std::optional<std::string> completion_script(std::string_view shell, std::string_view program) {
  if (shell == "bash") return for_program(kBash, program);
  if (shell == "zsh") return for_program(kZsh, program);
  if (shell == "fish") return for_program(kFish, program);
  return std::nullopt;
}

}  // namespace muster::cli::help
