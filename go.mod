module memscope

go 1.25
