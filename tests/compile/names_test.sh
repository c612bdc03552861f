#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# names_test.sh INCLUDE - names that users choose do not collide with ours.  ORIEL_KERNEL works with
# argument types that are called like its own parameters, in C and in C++.  In C++ every public type
# can be used by its name alone; a function of that name would hide it.
. "$(dirname "$0")/common.sh"
include=$1
flags=(-Wall -Wextra -Werror -O1 -I "$include" -c -o /dev/null)

# A kernel whose argument type is called $1.
kernel_file() {
	printf '#include <oriel/device.h>\ntypedef struct { struct oriel_window_dev win; } %s;\n' \
		"$1"
	printf 'ORIEL_KERNEL(k, %s) { (void)a; return 0; }\nint use(void);\n' "$1"
	printf 'int use(void) { return k.args_bytes == 0; }\n'
}

for compiler in cc clang c++ clang++; do
	if ! command -v "$compiler" >/dev/null; then
		echo "left out: no $compiler on PATH"
		continue
	fi
	case $compiler in
	*++) language=(-x c++ -std=c++17) ;;
	*) language=(-x c -std=c11) ;;
	esac
	for name in args a name args_type kernel symbol; do
		kernel_file "$name" >"$work/one.txt"
		expect "arguments called $name with $compiler" "$compiler" "${language[@]}" \
			"${flags[@]}" "$work/one.txt"
	done
done

# A variable of each struct and enum that the public headers declare, without the word struct.
types_file() {
	printf '#include <oriel/%s.h>\n' coll device device/coll oriel
	(cd "$include" && cat oriel/*.h oriel/coll/*.h oriel/device/*.h) |
		grep -oE '^(struct|enum) oriel_[a-z0-9_]+' | sort -u | while read -r _ type; do
		printf 'extern %s *pointer_to_%s;\n' "$type" "$type"
	done
}

types_file >"$work/types.cpp"
expect "types were found" grep -q 'extern oriel_boot_id ' "$work/types.cpp"
for compiler in c++ clang++; do
	command -v "$compiler" >/dev/null || continue
	expect "types by their names with $compiler" "$compiler" -std=c++17 "${flags[@]}" \
		"$work/types.cpp"
done
finish
